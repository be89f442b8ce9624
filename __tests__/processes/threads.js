'use strict';

// threads.js contexts|workers <count> [performance]: so many contexts, or workers with a context each, compute at the same time. The last line is the threads
// of this process that compute, by what they do.

const { readFileSync, readdirSync } = require('node:fs');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { ml, MLGraphBuilder } = require('../..');

const ROUNDS = 3;

/** A graph of some milliseconds, one of less than one, and a result that is long enough to be copied by others. */
async function prepare() {
  const context = await ml.createContext({ deviceType: 'cpu', performance: process.argv[4] });
  const build = async (size, length) => {
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', { dataType: 'float32', shape: [size, size] });
    let y = x;
    for (let i = 0; i < length; i++) y = builder.matmul(y, x);
    return { graph: await builder.build({ y }), size };
  };
  const graphs = [await build(512, 2), await build(128, 3)];
  const tensors = await Promise.all(graphs.map(({ size }) => Promise.all(['x', 'y'].map(() => {
    return context.createTensor({ dataType: 'float32', shape: [size, size], readable: true, writable: true });
  }))));
  const compute = ({ graph, size }) => context.compute(graph, { x: new Float32Array(size * size) }, { y: new Float32Array(size * size) });
  return async () => {
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all(graphs.flatMap((one) => [compute(one), compute(one), compute(one)]));
      graphs.forEach(({ graph }, i) => context.dispatch(graph, { x: tensors[i][0] }, { y: tensors[i][1] }));
      await Promise.all(tensors.map(([, y]) => context.readTensor(y)));
    }
  };
}

/** PF_EXITING in a thread's flags, of proc(5): one that has been joined may still be listed. */
const EXITING = 4;

function threads() {
  const count = {};
  for (const task of readdirSync('/proc/self/task')) {
    let stat;
    try {
      stat = readFileSync(`/proc/self/task/${task}/stat`, 'utf8');
    } catch {
      continue; // It has ended meanwhile.
    }
    const [, name, rest] = /^\d+ \((.*)\) (.*)/.exec(stat);
    const [, kind] = /^webnn (run|short run|pool|cpu)\b/.exec(name) ?? [];
    const [, , , , , , flags] = rest.split(' ');
    if (kind !== undefined && !(Number(flags) & EXITING)) count[kind] = (count[kind] ?? 0) + 1;
  }
  return count;
}

async function main(kind, count) {
  if (kind === 'contexts') {
    const contexts = await Promise.all(Array.from({ length: count }, prepare));
    await Promise.all(contexts.map((work) => work()));
    console.log(JSON.stringify(threads()));
    return;
  }
  const workers = Array.from({ length: count }, () => new Worker(__filename, { argv: process.argv.slice(2) }));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  workers.forEach((worker) => worker.postMessage('go'));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  console.log(JSON.stringify(threads()));
  workers.forEach((worker) => worker.terminate());
}

async function work() {
  const work = await prepare();
  parentPort.postMessage('ready');
  await once(parentPort, 'message');
  await work();
  parentPort.postMessage('done');
  // Its context lives until it is ended.
  setInterval(() => work, 1e6);
}

if (isMainThread) main(process.argv[2], Number(process.argv[3]));
else work();
