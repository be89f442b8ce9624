'use strict';

// returned.js burst COUNT | returned.js cycles MODEL WIDTH COUNT: the resident memory before and after, in bytes.
// returned.js blocks MEGABYTES: the same of the heaps of the C library, with half of so much in small blocks of a context that goes.

const { setTimeout } = require('node:timers/promises');
const { loadOnnx } = require('../../lib/onnx.js');
const { MLGraphBuilder } = require('../..');
const { residentByKind } = require('../stress/resident.js');
const { open } = require('./work.js');

function resident() {
  global.gc();
  return process.memoryUsage.rss();
}

/** Many large writes, all of which wait for a product. */
async function burst(count) {
  const context = await open({ numThreads: 1 });
  const size = 2048;
  const descriptor = { dataType: 'float32', shape: [size, size], writable: true, readable: true };
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', descriptor);
  const graph = await builder.build({ y: builder.matmul(x, x) });
  const [input, output] = [await context.createTensor(descriptor), await context.createTensor(descriptor)];
  const values = new Float32Array(size * size).fill(1);
  const into = new Float32Array(size * size);
  const write = async (times) => {
    context.dispatch(graph, { x: input }, { y: output });
    for (let i = 0; i < times; i++) context.writeTensor(input, values);
    const highest = process.memoryUsage.rss();
    await context.readTensor(input, into);
    return highest;
  };
  await write(1);
  await setTimeout(3000);
  const before = resident();
  const highest = await write(Number(count));
  await setTimeout(5000);
  return { before, highest, after: resident() };
}

/** Loads a model, runs it and releases it, again and again. */
async function cycles(model, width, count) {
  const context = await open({ numThreads: 1 });
  const x = new Float32Array(Number(width)).fill(0.5);
  let before;
  for (let i = 0; i < Number(count); i++) {
    const loaded = await loadOnnx(context, model);
    await loaded.run({ x });
    loaded.destroy();
    if (i === 2) before = resident();
  }
  return { before, after: resident() };
}

/** Builders of two contexts have small blocks in turn, so that those of the first are between those of the second when it goes. */
async function blocks(megabytes) {
  const [LABEL, IN_TURN] = [2000, 200];
  const contexts = [await open({ numThreads: 1 }), await open({ numThreads: 1 })];
  const builders = contexts.map((context) => new MLGraphBuilder(context));
  const inputs = builders.map((builder) => builder.input('x', { dataType: 'float32', shape: [1] }));
  const label = 'x'.repeat(LABEL);
  for (let bytes = 0; bytes < Number(megabytes) * 2 ** 20; bytes += 2 * IN_TURN * LABEL) {
    builders.forEach((builder, i) => {
      for (let k = 0; k < IN_TURN; k++) builder.abs(inputs[i], { label });
    });
  }
  const before = residentByKind().library;
  builders[0].destroy();
  contexts[0].destroy();
  let after;
  // How long that takes is not said.
  for (let tries = 0; tries < 200; tries++) {
    await setTimeout(200);
    after = residentByKind().library;
    if (after < before - Number(megabytes) * 2 ** 18) break;
  }
  return { before, after };
}

const [what, ...rest] = process.argv.slice(2);
({ burst, cycles, blocks })[what](...rest).then((said) => console.log(JSON.stringify(said)));
