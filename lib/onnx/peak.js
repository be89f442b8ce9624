'use strict';

// What a machine can do, for a comparison with what steps do: measured by a product of matrices, and by an addition in much memory.

const { performance } = require('node:perf_hooks');
const { MLGraphBuilder } = require('../builder.js');

const SIZE = 384;
/** Much more than most caches hold. */
const FLOATS = 1 << 23;
/** Milliseconds of measuring, and at least so many runs. Short ones find a moment in which nobody else has the processor. */
const [LONG, LEAST] = [80, 4];

/** By the context, which has threads and a way to compute products of its own. @type {WeakMap<object, Promise<Peak | undefined>>} */
const known = new WeakMap();

/** @typedef {import('../onnx.d.ts').OnnxPeak} Peak */

/**
 * What the CPU can do with the threads of a context; nothing on a GPU, or where there is no memory to find out. It is measured once.
 * @param {any} context an MLContext
 * @param {string} device
 */
function peakOf(context, device) {
  if (device !== 'cpu') return Promise.resolve(undefined);
  let peak = known.get(context);
  if (peak === undefined) {
    peak = measure(context).catch(() => undefined);
    known.set(context, peak);
  }
  return peak;
}

async function measure(context) {
  const product = await shortest(context, SIZE * SIZE, (builder, x) => {
    const weights = builder.constant({ dataType: 'float32', shape: [SIZE, SIZE] }, new Float32Array(SIZE * SIZE).fill(1 / SIZE));
    return builder.matmul(builder.reshape(x, [SIZE, SIZE]), weights);
  });
  const copy = await shortest(context, FLOATS, (builder, x) => builder.neg(x));
  return { gflops: (2 * SIZE ** 3) / product / 1e6, gbs: (8 * FLOATS) / copy / 1e6 };
}

/** The milliseconds of the shortest of several runs of a graph. */
async function shortest(context, length, make) {
  const builder = new MLGraphBuilder(context);
  const y = make(builder, builder.input('x', { dataType: 'float32', shape: [length] }));
  const graph = await builder.build({ y });
  let views = { inputs: { x: new Float32Array(length).fill(1) }, outputs: { y: new Float32Array(length) } };
  const run = async () => {
    const began = performance.now();
    views = await context.compute(graph, views.inputs, views.outputs);
    return performance.now() - began;
  };
  await run();
  const times = [];
  const until = performance.now() + LONG;
  while (times.length < LEAST || performance.now() < until) times.push(await run());
  graph.destroy();
  return Math.min(...times);
}

module.exports = { peakOf };
