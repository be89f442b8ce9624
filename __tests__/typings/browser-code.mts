// Code written for browsers: the registration is imported for what it does.
import 'webnn-node/register';

const context: MLContext = await navigator.ml.createContext({ accelerated: false });
const builder = new MLGraphBuilder(context);
export const operand: MLOperand = builder.relu(builder.input('x', { dataType: 'float32', shape: [1] }));
