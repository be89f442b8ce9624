'use strict';

// on-gpu.js <end>: ends the process, or a worker, in the middle of work of minutes on a GPU. Says how it went as long as there is
// something to say; `unavailable` where there is no GPU, not even one in software.

const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { ml, MLGraphBuilder } = require('../..');

// A device in software takes about a minute for one such product.
const matrix = { dataType: 'float32', shape: [4096, 4096] };
const PRODUCTS = 20;

/** Nothing can be ended in the middle. */
class TooFast extends Error {
  name = 'NotSupportedError';
  message = 'the device does in less than a second what should take minutes';
}

/** Starts the work. @returns the context and what was asked for: the promise of the result, and how it has ended if it has */
async function begin() {
  const context = await ml.createContext({ deviceType: 'gpu' });
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', matrix);
  let product = x;
  for (let i = 0; i < PRODUCTS; i++) product = builder.matmul(product, x);
  const graph = await builder.build({ y: product });
  const input = await context.createTensor({ ...matrix, writable: true });
  const output = await context.createTensor({ ...matrix, readable: true });
  // Numbers that are no zeros; a driver may know what becomes of those.
  context.writeTensor(input, new Float32Array(4096 * 4096).fill(2 ** -12));
  context.dispatch(graph, { x: input }, { y: output });
  const work = { context, reading: context.readTensor(output), state: 'under way' };
  const note = (state) => () => (work.state = state);
  work.reading.then(note('done'), note('refused'));
  // Into the middle of it.
  await sleep(500);
  if (work.state === 'done') throw new TooFast();
  return work;
}

const ends = {
  async exit() {
    globalThis.kept = await begin();
    console.log(globalThis.kept.state);
    process.exit(3);
  },

  async throw() {
    globalThis.kept = await begin();
    console.log(globalThis.kept.state);
    setImmediate(() => {
      throw new Error('thrown on purpose');
    });
  },

  async destroy() {
    const work = await begin();
    const before = work.state;
    work.context.destroy();
    const reason = await work.reading.catch(({ name }) => name);
    console.log(`${before}, then ${reason}`);
  },

  async terminate() {
    const worker = new Worker(__filename, { argv: ['worker'] });
    const [state] = await once(worker, 'message');
    await worker.terminate();
    console.log(`${state}, then terminated`);
  },

  /** With WEBNN_GPU_TIMEOUT. */
  async timeout() {
    const { context, reading } = await begin();
    const reason = await reading.then(
      () => {
        throw new TooFast();
      },
      (error) => `${error.name}: ${error.message}`,
    );
    // `lost` keeps no process alive, and may come after the read has failed.
    const alive = setInterval(() => {}, 60_000);
    const { message } = await context.lost;
    clearInterval(alive);
    console.log(JSON.stringify({ message, reason }));
  },

  async worker() {
    globalThis.kept = await begin();
    parentPort.postMessage(globalThis.kept.state);
  },
};

ends[isMainThread ? process.argv[2] : 'worker']().catch((error) => {
  if (error.name !== 'NotSupportedError') throw error;
  if (isMainThread) console.log(`unavailable: ${error.message}`);
  else parentPort.postMessage('unavailable');
});
