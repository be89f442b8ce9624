// Code written for browsers: the registration is imported for what it does.
import 'webnn-node/register';

using context: MLContext = await navigator.ml.createContext({ accelerated: false });
const builder: MLGraphBuilder = new MLGraphBuilder(context);
export const operand: MLOperand = builder.relu(builder.input('x', { dataType: 'float32', shape: [1] }));
const graph: MLGraph = await builder.build({ operand });
const tensor: MLTensor = await context.createTensor({ dataType: 'float32', shape: [1] });
const encoder: MLCommandEncoder = new MLCommandEncoder(context);
encoder.dispatch(graph, {}, { operand: tensor });
const commands: MLCommandBuffer = encoder.finish();
const executions: [MLExecution, MLAwaitedExecution] = [new MLExecution(context), new MLAwaitedExecution(context)];
export const all: [boolean, unknown] = [navigator.ml instanceof ML, [commands, executions]];
