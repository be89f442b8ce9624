'use strict';

// returned.js burst COUNT | returned.js cycles MODEL WIDTH COUNT: the resident memory before and after, in bytes.

const { setTimeout } = require('node:timers/promises');
const { loadOnnx } = require('../../lib/onnx.js');
const { MLGraphBuilder } = require('../..');
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

const [what, ...rest] = process.argv.slice(2);
({ burst, cycles })[what](...rest).then((said) => console.log(JSON.stringify(said)));
