'use strict';

// once.js <how> <file>: loads the model of a file eight times and runs it. Prints the resident bytes after the first and after the last
// time, after the first seven were let go of and after all were, and whether all computed the same.
// `contexts`: each in a context of its own; `bytes`: from a copy of the file's bytes, each; `sessions`: by onnxruntime's interface;
// `workers`: each in a worker; `builders`: graphs of a builder, with constants of the same bytes.

const { readFileSync } = require('node:fs');
const { setTimeout } = require('node:timers/promises');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { ml, MLGraphBuilder } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');

const COUNT = 8;
const [how, file] = isMainThread ? process.argv.slice(2) : workerData;

const input = (width) => Float32Array.from({ length: width }, (_, i) => Math.sin(i));

async function load() {
  if (how === 'sessions') {
    const { InferenceSession, Tensor } = require('../../lib/onnxruntime.js');
    const session = await InferenceSession.create(file);
    const [, width] = session.inputMetadata[0].shape;
    const { y } = await session.run({ x: new Tensor('float32', input(width), [1, width]) });
    return { y: y.data, release: () => session.release() };
  }
  const context = await ml.createContext({ deviceType: 'cpu' });
  // What nobody refers to is collected.
  const releasing = (what) => () => {
    what.destroy();
    context.destroy();
  };
  if (how === 'builders') {
    const builder = new MLGraphBuilder(context);
    const width = 2048;
    const weights = (layer) => new Float32Array(width * width).fill(2 ** -(layer + 11));
    let value = builder.input('x', { dataType: 'float32', shape: [1, width] });
    for (let layer = 0; layer < 6; layer++) {
      value = builder.matmul(value, builder.constant({ dataType: 'float32', shape: [width, width] }, weights(layer)));
    }
    const graph = await builder.build({ y: value });
    const { outputs } = await context.compute(graph, { x: input(width) }, { y: new Float32Array(width) });
    return { y: outputs.y, release: releasing(graph) };
  }
  const model = await loadOnnx(context, how === 'bytes' ? readFileSync(file) : file);
  const [, width] = model.inputs[0].shape;
  const { y } = await model.run({ x: input(width) });
  return { y: y.data, release: releasing(model) };
}

async function inWorker() {
  const worker = new Worker(__filename, { workerData: [how, file] });
  const y = await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  return { y, release: () => worker.terminate() };
}

/** What is resident when it is less than that; workers end in their time, and a few blocks are kept for a moment. */
async function whatStays(resident, enough) {
  let stays = await resident();
  for (let tries = 0; tries < 200 && stays > enough; tries++) {
    await setTimeout(100);
    stays = await resident();
  }
  return stays;
}

async function main() {
  const resident = async () => {
    for (let i = 0; i < 3; i++) {
      globalThis.gc();
      await new Promise(setImmediate);
    }
    return process.memoryUsage.rss();
  };
  const before = await resident();
  const loaded = [];
  const after = [];
  for (let i = 0; i < COUNT; i++) {
    loaded.push(await (how === 'workers' ? inWorker() : load()));
    after.push((await resident()) - before);
  }
  const same = loaded.every(({ y }) => Buffer.from(y.buffer, y.byteOffset, y.byteLength).equals(Buffer.from(loaded[0].y.buffer)));
  for (const { release } of loaded.splice(0, COUNT - 1)) await release();
  const left = (await resident()) - before;
  for (const { release } of loaded.splice(0)) await release();
  console.log(JSON.stringify({ first: after[0], last: after[COUNT - 1], left, gone: (await whatStays(resident, before + left / 2)) - before, same }));
}

if (isMainThread) {
  main();
} else {
  load().then((loaded) => {
    parentPort.postMessage(loaded.y);
    parentPort.on('message', () => loaded.release());
  });
}
