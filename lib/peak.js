'use strict';

// What a machine can do, for a comparison with what steps do: measured by a product of matrices, and by an addition in much memory.

const { performance } = require('node:perf_hooks');
const native = require('./native.js');
const { MLGraphBuilder } = require('./builder.js');
const { destroyWatch } = require('./cancelling.js');
const { toContext } = require('./context.js');
const { toGraph } = require('./graph.js');
const { createWatch } = require('./scheduling.js');
const { begin } = require('./settle.js');

const SIZE = 384;
/** More than the caches of a core hold. */
const FLOATS = 1 << 22;
/** Milliseconds of measuring, and at least so many runs. Short ones find a moment in which nobody else has the processor. */
const [LONG, LEAST] = [80, 4];

/** By the context, which has threads and a way to compute products of its own. @type {WeakMap<object, Promise<Peak | undefined>>} */
const known = new WeakMap();

/** @typedef {import('./onnx.d.ts').OnnxPeak} Peak */

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

/**
 * Measures it for the trace of the process, which compares the steps of a new context with it.
 * @param {any} context an MLContext
 */
async function withPeak(context) {
  const state = toContext(context);
  state.peak = await peakOf(context, state.device);
  return context;
}

async function measure(context) {
  const product = await shortest(context, SIZE * SIZE, (builder, x) => {
    const weights = builder.constant({ dataType: 'float32', shape: [SIZE, SIZE] }, new Float32Array(SIZE * SIZE).fill(1 / SIZE));
    return builder.matmul(builder.reshape(x, [SIZE, SIZE]), weights);
  });
  const copy = await shortest(context, FLOATS, (builder, x) => builder.neg(x));
  return { gflops: (2 * SIZE ** 3) / product / 1e6, gbs: (8 * FLOATS) / copy / 1e6 };
}

/** The milliseconds that the only step of a graph takes, at best. */
async function shortest(context, length, make) {
  const label = 'what this machine can do';
  const builder = new MLGraphBuilder(context);
  const y = make(builder, builder.input('x', { dataType: 'float32', shape: [length] }));
  const graph = toGraph(await builder.build({ y }, { label }));
  const [x, result] = [new Float32Array(length).fill(1), new ArrayBuffer(4 * length)];
  const run = async () => {
    const watch = createWatch({}, true);
    const entry = { operator: 'profile', label, context: graph.context, object: graph, lends: true, memory: result, arrive: () => native.takeSteps(watch) };
    try {
      const steps = await begin(entry, (request) => native.run(request, graph.context.handle, graph.handle, [x], [result], label, watch));
      const [, , began, ended] = steps[steps.length - 1];
      return (ended - began) / 1e6;
    } finally {
      destroyWatch(watch);
    }
  };
  const times = [];
  const until = performance.now() + LONG;
  while (times.length < LEAST || performance.now() < until) times.push(await run());
  graph.object.destroy();
  return Math.min(...times);
}

module.exports = { peakOf, withPeak };
