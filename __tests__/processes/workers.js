'use strict';

// workers.js <ending>: several threads at once, each with contexts of its own, and the main thread with one as well.
// They end by themselves with everything alive, or are ended in the middle of work.

const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

const THREADS = 4;

/** How a worker begins before it is ended; `alive` ends by itself. */
const beginnings = {
  async alive({ open, small }) {
    globalThis.kept = [await open(), await open({ numThreads: 1 })];
    parentPort.postMessage(await small(globalThis.kept[1]));
  },
  /** Before the module is there, or while it is being loaded, or right after. */
  loading() {},
  /** Before its first context is there. */
  opening({ open }) {
    open();
    parentPort.postMessage(3);
  },
  dispatch: ({ open, long }) => busy(open, long.dispatch),
  kernel: ({ open, long }) => busy(open, long.kernel),
  elements: ({ open, long }) => busy(open, long.elements),
  build: ({ open, long }) => busy(open, long.build),
  read: ({ open, long }) => busy(open, long.read),
  /** Threads of its context wake its event loop again and again. */
  runs: async ({ open, runs }) => runs(await open({ numThreads: 2 }), () => parentPort.postMessage(3)),
  /** Ends itself in the middle. */
  async exit({ open, long }) {
    await busy(open, long.dispatch);
    process.exit(0);
  },
};

async function busy(open, work) {
  const context = await open();
  globalThis.kept = [context, await work(context)];
  parentPort.postMessage(3);
}

async function main(beginning, threads) {
  const { open, small } = beginning === 'loading' ? {} : require('./work.js');
  const context = await open?.();
  const workers = Array.from({ length: threads }, () => new Worker(__filename, { workerData: beginning }));
  const ended = workers.map((worker) => once(worker, 'exit'));
  if (beginning === 'loading') {
    await Promise.all(workers.map((worker, i) => sleep(10 * i).then(() => worker.terminate())));
  } else {
    const sums = await Promise.all(workers.map((worker) => once(worker, 'message')));
    if (sums.some(([sum]) => sum !== 3)) throw new Error(`sums: ${sums}`);
    if (beginning !== 'alive' && beginning !== 'exit') await Promise.all(workers.map((worker) => worker.terminate()));
  }
  await Promise.all(ended);
  // What the others left behind disturbs nobody.
  if (context && (await small(context)) !== 3) throw new Error('the context of the main thread was disturbed');
  const work = require('./work.js');
  await work.open();
  console.log('all ended');
}

if (isMainThread) main(process.argv[2], Number(process.argv[3] ?? THREADS));
else beginnings[workerData](require('./work.js'));
