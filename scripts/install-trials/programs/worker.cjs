'use strict';

// Loads the addon for the first time in a worker, then in eight workers at once, which compute; the last stays alive until the end.

const { once } = require('node:events');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');

async function compute() {
  const { ml, MLGraphBuilder } = require('webnn-node');
  const context = await ml.createContext({ accelerated: false });
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.input('x', { dataType: 'float32', shape: [2] })) });
  const input = await context.createTensor({ dataType: 'float32', shape: [2], writable: true });
  const output = await context.createTensor({ dataType: 'float32', shape: [2], readable: true });
  context.writeTensor(input, Float32Array.of(-1, 3));
  context.dispatch(graph, { x: input }, { y: output });
  return [...new Float32Array(await context.readTensor(output))].join();
}

async function start() {
  const worker = new Worker(__filename);
  worker.on('error', (error) => { throw error; });
  const [result] = await once(worker, 'message');
  return result;
}

async function main() {
  const results = [await start(), ...(await Promise.all(Array.from({ length: 8 }, start))), await compute()];
  console.log([...new Set(results)].join(' '));
  process.exit(0);
}

if (isMainThread) main();
else {
  compute().then((result) => parentPort.postMessage(result));
  setInterval(() => {}, 1e6);
}
