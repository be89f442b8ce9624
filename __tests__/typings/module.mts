// The same typings serve ECMAScript modules.
import { ml, MLGraphBuilder } from 'webnn-node';

const context = await ml.createContext({ accelerated: false });
const builder = new MLGraphBuilder(context);
const x = builder.input('x', { dataType: 'float32', shape: [1] });
{
  using tensor = await context.createTensor({ dataType: 'float32', shape: [1] });
  console.log(tensor.shape);
}
export const graph = await builder.build({ y: builder.relu(x) });
