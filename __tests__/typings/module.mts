// The same typings serve ECMAScript modules.
import webnn, { ml, MLGraphBuilder } from 'webnn-node';
import onnx, { loadOnnx } from 'webnn-node/onnx';

using context = await ml.createContext({ accelerated: false });
using builder = new MLGraphBuilder(context);
const x = builder.input('x', { dataType: 'float32', shape: [1] });
{
  using tensor = await context.createTensor({ dataType: 'float32', shape: [1] });
  console.log(tensor.shape);
}
{
  using graph = await builder.build({ y: builder.relu(x) });
  using model = await loadOnnx(context, 'model.onnx');
  using bindings = await model.createBindings();
  console.log(graph.devices, bindings.inputs);
}
export const same: boolean = onnx.loadOnnx === loadOnnx && webnn.ml === ml;
