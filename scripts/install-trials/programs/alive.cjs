'use strict';

// Ends by itself after a run: with a context, a graph and tensors alive, or with everything destroyed.

const { ml, MLGraphBuilder } = require('webnn-node');

async function main() {
  const context = await ml.createContext({ accelerated: false });
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.input('x', { dataType: 'float32', shape: [2] })) });
  const input = await context.createTensor({ dataType: 'float32', shape: [2], writable: true });
  const output = await context.createTensor({ dataType: 'float32', shape: [2], readable: true });
  context.writeTensor(input, Float32Array.of(-1, 3));
  context.dispatch(graph, { x: input }, { y: output });
  console.log([...new Float32Array(await context.readTensor(output))].join());
  if (process.argv[2] === 'destroyed') context.destroy();
  else globalThis.kept = [context, graph, input, output];
}

main();
