// The same typings serve ECMAScript modules.
import { ml, MLGraphBuilder } from 'webnn-node';

const context = await ml.createContext({ accelerated: false });
const builder = new MLGraphBuilder(context);
const x = builder.input('x', { dataType: 'float32', shape: [1] });
export const graph = await builder.build({ y: builder.relu(x) });
