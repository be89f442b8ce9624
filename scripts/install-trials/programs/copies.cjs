'use strict';

// Two copies of the package in one process, each with its own addon; both compute, one after the other and at once.

async function compute({ ml, MLGraphBuilder }) {
  const context = await ml.createContext({ accelerated: false });
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.input('x', { dataType: 'float32', shape: [2] })) });
  const input = await context.createTensor({ dataType: 'float32', shape: [2], writable: true });
  const output = await context.createTensor({ dataType: 'float32', shape: [2], readable: true });
  context.writeTensor(input, Float32Array.of(-1, 3));
  context.dispatch(graph, { x: input }, { y: output });
  return [...new Float32Array(await context.readTensor(output))].join();
}

async function main() {
  const copies = [require('webnn-node'), require(require.resolve('webnn-node', { paths: ['./other'] }))];
  if (copies[0].ml === copies[1].ml) throw new Error('one copy');
  const results = [await compute(copies[0]), await compute(copies[1]), ...(await Promise.all(copies.map(compute)))];
  console.log([...new Set(results)].join(' '));
}

main();
