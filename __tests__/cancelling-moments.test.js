'use strict';

// docs/extensions.md C19: everything that takes a signal, cancelled before, while it waits and while it runs. The promise is rejected with the
// reason, and what was taken for the work goes back.

const { setTimeout: sleep } = require('node:timers/promises');
const { ml, MLGraphBuilder } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { createTensors, float32 } = require('./adder.js');
const { tensor, writeModel } = require('./onnx/write.js');

const SIZE = 512;
const square = float32(SIZE, SIZE);
const zeros = () => new Float32Array(SIZE * SIZE);
/** More than are made at a time. */
const OTHERS = 6;

/** Of which a run takes minutes. */
async function buildLong(context) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', square);
  let y = x;
  for (let i = 0; i < 8000; i++) y = builder.matmul(y, x);
  return builder.build({ y });
}

/** Of which a build computes minutes. */
function buildEndless(context, signal) {
  const builder = new MLGraphBuilder(context);
  const large = builder.constant(constant);
  let product = large;
  for (let i = 0; i < 5000; i++) product = builder.matmul(product, large);
  return builder.build({ product }, { signal });
}

/** Of which a plan computes minutes. */
function endless(rows, count) {
  const names = Array.from({ length: count }, (_, i) => `p${i}`);
  const products = names.slice(1).map((name, i) => ({ op: 'MatMul', inputs: [names[i], 'p0'], outputs: [name] }));
  return writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [rows, SIZE] }],
    outputs: [{ name: 'y' }],
    initializers: [tensor('p0', 'float', [SIZE, SIZE], zeros())],
    nodes: [...products, { op: 'MatMul', inputs: ['x', names.at(-1)], outputs: ['y'] }],
  });
}

let context;
let constant;
let long;
let tensors;
let model;
beforeAll(async () => {
  // What was used once goes back soon.
  context = await ml.createContext({ accelerated: false, numThreads: 1, idle: 1 });
  long = await buildLong(context);
  // Builders are garbage with what they have.
  constant = await context.createConstantTensor(square, zeros());
  tensors = await createTensors(context, 3, square);
  model = await loadOnnx(context, endless('rows', 50_000));
});
afterAll(() => context.destroy());

const KINDS = {
  dispatch(signal) {
    const [x, y] = tensors;
    context.dispatch(long, { x }, { y }, { signal });
    return context.readTensor(y);
  },
  compute: (signal) => context.compute(long, { x: zeros() }, { y: zeros() }, { signal }),
  build: (signal) => buildEndless(context, signal),
  loadOnnx: (signal) => loadOnnx(context, endless(1, 4000), { signal }),
  prepare: (signal) => model.prepare([{ x: [3, SIZE] }], { signal }),
};

/** Runs, or makes graphs, until it is aborted: whatever comes has to wait. */
function occupy(signal) {
  const [x, , z] = tensors;
  context.dispatch(long, { x }, { y: z }, { signal });
  return [context.readTensor(z), ...Array.from({ length: OTHERS }, () => buildEndless(context, signal))].map((promise) => promise.catch((error) => error));
}

/** What the context holds, when that is as much as before, or after 20 seconds. */
async function usageAsBefore(before) {
  const held = () => ({ ...context.memoryUsage(), peak: 0 });
  for (let i = 0; before !== undefined && i < 2000 && JSON.stringify(held()) !== JSON.stringify(before); i++) await sleep(10);
  return held();
}

describe.each(Object.keys(KINDS))('%s', (kind) => {
  const start = async (signal) => KINDS[kind](signal);
  let before;
  beforeEach(async () => {
    before = await usageAsBefore(before);
  });
  afterEach(async () => {
    expect(await usageAsBefore(before)).toEqual(before);
  });

  test('before it is asked for', async () => {
    const reason = new Error('before');
    await expect(start(AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test('while it waits', async () => {
    const [stop, controller, end, reason] = [new AbortController(), new AbortController(), new Error('end'), new Error('waits')];
    const busy = occupy(stop.signal);
    const started = start(controller.signal);
    controller.abort(reason);
    await expect(started).rejects.toBe(reason);
    stop.abort(end);
    expect(await Promise.all(busy)).toEqual(busy.map(() => end));
  });

  test.each([0, 1, 5, 20, 60])('after %d ms', async (time) => {
    const [controller, reason] = [new AbortController(), new Error('runs')];
    const started = start(controller.signal);
    setTimeout(() => controller.abort(reason), time);
    await expect(started).rejects.toBe(reason);
  });
});

test('a read that waits leaves what it waits for', async () => {
  const [x, y] = tensors;
  const [stop, controller, end, reason] = [new AbortController(), new AbortController(), new Error('end'), new Error('read')];
  context.dispatch(long, { x }, { y }, { signal: stop.signal });
  await expect(context.readTensor(y, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  for (const time of [0, 5, 20]) {
    const one = new AbortController();
    const reading = context.readTensor(y, { signal: one.signal });
    setTimeout(() => one.abort(reason), time);
    await expect(reading).rejects.toBe(reason);
  }
  const reading = context.readTensor(y, zeros(), { signal: controller.signal });
  stop.abort(end);
  await expect(reading).rejects.toBe(end);
});
