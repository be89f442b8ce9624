'use strict';

// docs/extensions.md C19: what a signal cancels.

const { setTimeout: sleep } = require('node:timers/promises');
const { MLGraphBuilder } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');
const { tensor, writeModel } = require('./onnx/write.js');

const held = useContext({ accelerated: false, numThreads: 2 });
const SIZE = 512;
const square = float32(SIZE, SIZE);

/** A graph of so many products, about 2 ms each. */
async function buildLong(products) {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', square);
  let y = x;
  for (let i = 0; i < products; i++) y = builder.tanh(builder.matmul(y, x));
  return builder.build({ y });
}

/** Of which `build()` computes minutes. */
function buildEndless(options) {
  const builder = new MLGraphBuilder(held.context);
  const large = builder.constant(square, new Float32Array(SIZE * SIZE).fill(1e-3));
  let product = large;
  for (let i = 0; i < 5_000; i++) product = builder.matmul(product, large);
  return builder.build({ product }, options);
}

function aborting(reason = new Error('not wanted')) {
  const controller = new AbortController();
  return { signal: controller.signal, reason, abort: () => controller.abort(reason) };
}

/** The milliseconds of CPU time that the process takes in so many milliseconds. */
async function busyFor(time) {
  const before = process.cpuUsage();
  await sleep(time);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/**
 * That nothing is computed any more: what is cancelled here would take longer than the windows below. The process may have work of its own for a
 * while, such as collecting garbage of files that were tested before.
 */
async function expectIdle() {
  await sleep(50);
  const busy = [];
  do busy.push(await busyFor(100));
  while (busy.at(-1) > 50 && busy.length < 4);
  expect(busy.at(-1)).toBeLessThanOrEqual(50);
}

const caught = (promise) => promise.catch((error) => error);

let long;
let tensors;
beforeAll(async () => {
  long = await buildLong(500);
  tensors = await createTensors(held.context, 4, square);
});

describe('a signal that is aborted already', () => {
  const { signal, reason, abort } = aborting();
  abort();

  test('refuses everything with its reason', async () => {
    const { context } = held;
    const [x, y] = tensors;
    context.writeTensor(y, new Float32Array(SIZE * SIZE).fill(3));
    expect(() => context.dispatch(long, { x }, { y }, { signal })).toThrow(reason);
    expect((await read(context, y))[0]).toBe(3);
    const views = [new Float32Array(SIZE * SIZE), new Float32Array(SIZE * SIZE)];
    expect(await caught(context.compute(long, { x: views[0] }, { y: views[1] }, { signal }))).toBe(reason);
    expect(views.map(({ length }) => length)).toEqual([SIZE * SIZE, SIZE * SIZE]);
    expect(await caught(context.readTensor(y, { signal }))).toBe(reason);
    expect(await caught(context.readTensor(y, new Float32Array(SIZE * SIZE), { signal }))).toBe(reason);
    const builder = new MLGraphBuilder(context);
    const outputs = { z: builder.relu(builder.input('x', float32(2))) };
    expect(await caught(builder.build(outputs, { signal }))).toBe(reason);
    // The builder has not built.
    await expect(builder.build(outputs)).resolves.toBeDefined();
  });

  test.each([null, 1, {}, 'signal'])('is none: %p', async (wrong) => {
    const { context } = held;
    const [x, y] = tensors;
    expect(() => context.dispatch(long, { x }, { y }, { signal: wrong })).toThrow('signal: found');
    await expect(context.readTensor(y, { signal: wrong })).rejects.toThrow(TypeError);
    await expect(buildAdder(context, float32(2), { signal: wrong })).rejects.toThrow('allowed an AbortSignal');
  });
});

describe('dispatch()', () => {
  test('leaves the reason in its outputs, and what follows goes on', async () => {
    const { context } = held;
    const [x, y, z] = tensors;
    const adder = await buildAdder(context, square);
    const { signal, reason, abort } = aborting();
    context.dispatch(long, { x }, { y }, { signal, label: 'mine' });
    context.dispatch(adder, { a: y, b: x }, { c: z });
    await sleep(20);
    abort();
    const began = performance.now();
    expect(await caught(context.readTensor(y))).toBe(reason);
    expect(performance.now() - began).toBeLessThan(500);
    const error = await caught(context.readTensor(z));
    expect(error).toMatchObject({ name: 'OperationError', message: expect.stringContaining('an input is errored') });
    let cause = error;
    while (cause.cause !== undefined) cause = cause.cause;
    expect(cause).toBe(reason);
    context.writeTensor(y, new Float32Array(SIZE * SIZE).fill(2));
    context.writeTensor(x, new Float32Array(SIZE * SIZE).fill(1));
    context.dispatch(adder, { a: y, b: x }, { c: z });
    expect([(await read(context, y))[0], (await read(context, z))[0]]).toEqual([2, 3]);
    await expectIdle();
  });

  test('of many that wait none runs, and earlier and later work does', async () => {
    const { context } = held;
    const [x, y, z, w] = tensors;
    context.writeTensor(x, new Float32Array(SIZE * SIZE));
    const short = await buildLong(30);
    const { signal, reason, abort } = aborting();
    context.dispatch(short, { x }, { y });
    for (let i = 0; i < 100; i++) context.dispatch(long, { x }, { y: i % 2 ? z : w }, { signal });
    context.dispatch(short, { x }, { y: w });
    const began = performance.now();
    abort();
    const results = await Promise.all([y, z, w].map((tensor) => caught(context.readTensor(tensor))));
    expect(results[1]).toBe(reason);
    expect([0, 2].map((i) => new Float32Array(results[i])[0] ?? results[i])).toEqual([0, 0]);
    expect(performance.now() - began).toBeLessThan(5_000);
    await expectIdle();
  });

  test('keeps a reason for as long as a tensor has it', async () => {
    const { context } = held;
    const [x, y] = tensors;
    const adder = await buildAdder(context);
    const [a, b, c] = await createTensors(context, 3);
    const { signal, reason, abort } = aborting('a string');
    context.dispatch(long, { x }, { y }, { signal });
    abort();
    for (let i = 0; i < 300; i++) {
      const other = aborting();
      context.dispatch(adder, { a, b }, { c }, { signal: other.signal });
      other.abort();
    }
    expect(await caught(context.readTensor(y))).toBe(reason);
  });

  test('that has ended is not changed by an abort', async () => {
    const { context } = held;
    const adder = await buildAdder(context);
    const [a, b, c] = await createTensors(context, 3);
    context.writeTensor(a, Float32Array.of(1, 2));
    const { signal, abort } = aborting();
    context.dispatch(adder, { a, b: b }, { c }, { signal });
    await context.readTensor(c);
    abort();
    expect(await read(context, c)).toEqual([1, 2]);
  });

  test('at every moment', async () => {
    const { context } = held;
    const [x, y] = tensors;
    const short = await buildLong(20);
    let cancelled = 0;
    for (let delay = 0; delay < 30; delay++) {
      const { signal, reason, abort } = aborting();
      context.writeTensor(y, new Float32Array(SIZE * SIZE).fill(7));
      context.dispatch(short, { x }, { y }, { signal });
      setTimeout(abort, delay);
      const result = await caught(context.readTensor(y));
      if (result === reason) cancelled++;
      else expect(new Float32Array(result)[0]).toBe(0);
    }
    expect(cancelled).toBeGreaterThan(0);
  });
});

describe('compute()', () => {
  const views = () => [{ x: new Float32Array(SIZE * SIZE).fill(1) }, { y: new Float32Array(SIZE * SIZE) }];

  test('gives the memory back with the reason', async () => {
    const { signal, reason, abort } = aborting();
    const promise = held.context.compute(long, ...views(), { signal });
    await sleep(20);
    abort();
    const began = performance.now();
    const error = await caught(promise);
    expect(performance.now() - began).toBeLessThan(500);
    expect(error).toBe(reason);
    expect([error.inputs.x[5], error.outputs.y.length]).toEqual([1, SIZE * SIZE]);
    await expectIdle();
  });

  test('of several that wait, with reasons that take nothing', async () => {
    const { context } = held;
    const before = context.memoryUsage();
    const first = aborting();
    const running = context.compute(long, ...views(), { signal: first.signal });
    const { signal, abort } = aborting(null);
    const waiting = Array.from({ length: 20 }, () => context.compute(long, ...views(), { signal }));
    const frozen = aborting(Object.freeze(new Error('frozen')));
    waiting.push(context.compute(long, ...views(), { signal: frozen.signal }));
    abort();
    frozen.abort();
    expect(await Promise.all(waiting.map(caught))).toEqual([...new Array(20).fill(null), frozen.reason]);
    first.abort();
    expect(await caught(running)).toBe(first.reason);
    expect(context.memoryUsage().scratch).toBeLessThanOrEqual(before.scratch);
  });
});

test('readTensor() ends alone', async () => {
  const { context } = held;
  const [x, y] = tensors;
  context.writeTensor(x, new Float32Array(SIZE * SIZE));
  context.dispatch(await buildLong(100), { x }, { y });
  const { signal, reason, abort } = aborting();
  const target = new Float32Array(SIZE * SIZE).fill(9);
  const unread = [context.readTensor(y, { signal }), context.readTensor(y, target, { signal })].map(caught);
  const other = context.readTensor(y);
  abort();
  let isThere = false;
  other.then(() => (isThere = true));
  expect(await Promise.all(unread)).toEqual([reason, reason]);
  expect(isThere).toBe(false);
  expect(new Float32Array(await other)[0]).toBe(0);
  expect(target[0]).toBe(9);
  await expect(context.readTensor(y, {})).rejects.toThrow(TypeError);
  expect((await context.readTensor(y, { signal: new AbortController().signal })).byteLength).toBe(target.byteLength);
});

test('build() ends, and so does what it computes', async () => {
  const { signal, reason, abort } = aborting();
  const building = caught(buildEndless({ signal }));
  await sleep(50);
  abort();
  expect(await building).toBe(reason);
  await expectIdle();
});

describe('models', () => {
  /** `y = x` times a product of so many constants, for any number of rows. A plan takes 0.1 ms for each, a run 3 ms. */
  function endless(rows, count = 4000) {
    const weights = new Float32Array(SIZE * SIZE).fill(1e-3);
    const names = Array.from({ length: count }, (_, i) => `p${i}`);
    const products = names.slice(1).map((name, i) => ({ op: 'MatMul', inputs: [names[i], 'p0'], outputs: [name] }));
    return writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [rows, SIZE] }],
      outputs: [{ name: 'y', type: 'float', shape: [rows, SIZE] }],
      initializers: [tensor('p0', 'float', [SIZE, SIZE], weights)],
      nodes: [...products, { op: 'MatMul', inputs: ['x', names.at(-1)], outputs: ['y'] }],
    });
  }

  test('loadOnnx() ends', async () => {
    const { signal, reason, abort } = aborting();
    const loading = caught(loadOnnx(held.context, endless(1), { signal }));
    await sleep(100);
    abort();
    expect(await loading).toBe(reason);
    await expectIdle();
  });

  test('prepare() ends for whoever cancels, and really with the last', async () => {
    const model = await loadOnnx(held.context, endless('rows', 50_000));
    const [first, second] = [aborting(), aborting()];
    const shapes = [{ x: [3, SIZE] }];
    const waiting = [first, second].map(({ signal }) => caught(model.prepare(shapes, { signal })));
    const running = caught(model.run({ x: { data: new Float32Array(3 * SIZE), shape: [3, SIZE] } }, { signal: second.signal }));
    await sleep(50);
    first.abort();
    expect(await waiting[0]).toBe(first.reason);
    expect(await busyFor(300)).toBeGreaterThan(10);
    second.abort();
    expect(await Promise.all([waiting[1], running])).toEqual([second.reason, second.reason]);
    await expectIdle();
    expect(await caught(model.prepare(shapes, { signal: first.signal }))).toBe(first.reason);
    await expect(model.prepare(shapes, { signal: 1 })).rejects.toThrow('options: signal: found 1, allowed an AbortSignal');
    await expect(model.prepare(shapes, null)).rejects.toThrow('options: found null');
    model.destroy();
  });
});
