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
/** Two threads take minutes for so many products of LARGE x LARGE elements, on any machine: longer than a test may take. */
const ENDLESS = 20_000;
const LARGE = 1024;

/** A graph of so many products, which takes `x` and gives `y`. */
async function buildProducts(products) {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', square);
  let y = x;
  for (let i = 0; i < products; i++) y = builder.tanh(builder.matmul(y, x));
  return builder.build({ y });
}

/** The same, of which the result depends on more products than a test can wait for. */
async function buildEndless() {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', square);
  const large = builder.expand(builder.reduceSum(x, { keepDimensions: true }), [LARGE, LARGE]);
  let y = large;
  for (let i = 0; i < ENDLESS; i++) y = builder.matmul(y, large);
  return builder.build({ y: builder.slice(y, [0, 0], [SIZE, SIZE]) });
}

/** Of which `build()` computes products without end. */
function buildOfConstants(options) {
  const builder = new MLGraphBuilder(held.context);
  const large = builder.constant(float32(LARGE, LARGE), new Float32Array(LARGE * LARGE).fill(1e-3));
  let product = large;
  for (let i = 0; i < ENDLESS; i++) product = builder.matmul(product, large);
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

/** Waits until something is computed while this thread waits. */
async function untilBusy() {
  while ((await busyFor(10)) < 5);
}

/** Waits until nothing is computed any more. What is cancelled here would be computed for longer than a test may take. */
async function untilIdle() {
  while ((await busyFor(100)) > 50);
}

const caught = (promise) => promise.catch((error) => error);

let long;
let tensors;
beforeAll(async () => {
  long = await buildEndless();
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
    await untilBusy();
    abort();
    expect(await caught(context.readTensor(y))).toBe(reason);
    const error = await caught(context.readTensor(z));
    expect(error).toMatchObject({ name: 'OperationError', message: expect.stringContaining('an input is errored') });
    let cause = error;
    while (cause.cause !== undefined) cause = cause.cause;
    expect(cause).toBe(reason);
    context.writeTensor(y, new Float32Array(SIZE * SIZE).fill(2));
    context.writeTensor(x, new Float32Array(SIZE * SIZE).fill(1));
    context.dispatch(adder, { a: y, b: x }, { c: z });
    expect([(await read(context, y))[0], (await read(context, z))[0]]).toEqual([2, 3]);
    await untilIdle();
  });

  test('of many that wait none runs, and earlier and later work does', async () => {
    const { context } = held;
    const [x, y, z, w] = tensors;
    context.writeTensor(x, new Float32Array(SIZE * SIZE));
    const short = await buildProducts(30);
    const { signal, reason, abort } = aborting();
    context.dispatch(short, { x }, { y });
    for (let i = 0; i < 100; i++) context.dispatch(long, { x }, { y: i % 2 ? z : w }, { signal });
    context.dispatch(short, { x }, { y: w });
    abort();
    const results = await Promise.all([y, z, w].map((tensor) => caught(context.readTensor(tensor))));
    expect(results[1]).toBe(reason);
    expect([0, 2].map((i) => new Float32Array(results[i])[0] ?? results[i])).toEqual([0, 0]);
    await untilIdle();
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
    const short = await buildProducts(20);
    for (let delay = 0; delay < 30; delay++) {
      const { signal, reason, abort } = aborting();
      context.writeTensor(y, new Float32Array(SIZE * SIZE).fill(7));
      context.dispatch(short, { x }, { y }, { signal });
      setTimeout(abort, delay);
      const result = await caught(context.readTensor(y));
      if (result !== reason) expect(new Float32Array(result)[0]).toBe(0);
    }
  });
});

describe('compute()', () => {
  const views = () => [{ x: new Float32Array(SIZE * SIZE).fill(1) }, { y: new Float32Array(SIZE * SIZE) }];

  test('gives the memory back with the reason', async () => {
    const { signal, reason, abort } = aborting();
    const promise = held.context.compute(long, ...views(), { signal });
    await untilBusy();
    abort();
    const error = await caught(promise);
    expect(error).toBe(reason);
    expect([error.inputs.x[5], error.outputs.y.length]).toEqual([1, SIZE * SIZE]);
    await untilIdle();
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
  const run = aborting();
  context.dispatch(long, { x }, { y }, { signal: run.signal });
  const { signal, reason, abort } = aborting();
  const target = new Float32Array(SIZE * SIZE).fill(9);
  const unread = [context.readTensor(y, { signal }), context.readTensor(y, target, { signal })].map(caught);
  let isPending = true;
  const other = caught(context.readTensor(y)).finally(() => (isPending = false));
  abort();
  expect(await Promise.all(unread)).toEqual([reason, reason]);
  expect(isPending).toBe(true);
  run.abort();
  expect(await other).toBe(run.reason);
  expect(target[0]).toBe(9);
  context.writeTensor(y, target);
  await expect(context.readTensor(y, {})).rejects.toThrow(TypeError);
  expect((await context.readTensor(y, { signal: new AbortController().signal })).byteLength).toBe(target.byteLength);
});

test('build() ends, and so does what it computes', async () => {
  const { signal, reason, abort } = aborting();
  const building = caught(buildOfConstants({ signal }));
  await untilBusy();
  abort();
  expect(await building).toBe(reason);
  await untilIdle();
});

describe('models', () => {
  /** `y = x` times a product of so many constants, for any number of rows. */
  function endless(rows, count = ENDLESS) {
    const weights = new Float32Array(LARGE * LARGE).fill(1e-3);
    const names = Array.from({ length: count }, (_, i) => `p${i}`);
    const products = names.slice(1).map((name, i) => ({ op: 'MatMul', inputs: [names[i], 'p0'], outputs: [name] }));
    return writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [rows, LARGE] }],
      outputs: [{ name: 'y', type: 'float', shape: [rows, LARGE] }],
      initializers: [tensor('p0', 'float', [LARGE, LARGE], weights)],
      nodes: [...products, { op: 'MatMul', inputs: ['x', names.at(-1)], outputs: ['y'] }],
    });
  }

  test('run() may be aborted between its end and the moment in which its caller hears of it', async () => {
    const small = await loadOnnx(held.context, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [4] }], outputs: [{ name: 'y' }], nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }] }));
    const x = Float32Array.of(1, 2, 3, 4);
    // Runs that end together: after the end of one the other is aborted, so many promises later.
    for (let promises = 0; promises < 30; promises++) {
      const controller = new AbortController();
      const reason = new Error('late');
      const runs = [small.run({ x }), small.run({ x }, { signal: controller.signal })];
      const aborted = runs[0].then(async () => {
        for (let i = 0; i < promises; i++) await undefined;
        controller.abort(reason);
      });
      const result = await runs[1].then(({ y }) => [...y.data], (error) => error);
      expect(result === reason ? [-1, -2, -3, -4] : result).toEqual([-1, -2, -3, -4]);
      await aborted;
    }
    small.destroy();
  });

  test('loadOnnx() ends', async () => {
    const { signal, reason, abort } = aborting();
    const loading = caught(loadOnnx(held.context, endless(1), { signal }));
    await untilBusy();
    abort();
    expect(await loading).toBe(reason);
    await untilIdle();
  });

  test('prepare() ends for whoever cancels, and really with the last', async () => {
    const model = await loadOnnx(held.context, endless('rows', 50_000));
    const [first, second] = [aborting(), aborting()];
    const shapes = [{ x: [3, LARGE] }];
    const waiting = [first, second].map(({ signal }) => caught(model.prepare(shapes, { signal })));
    const running = caught(model.run({ x: { data: new Float32Array(3 * LARGE), shape: [3, LARGE] } }, { signal: second.signal }));
    await untilBusy();
    first.abort();
    expect(await waiting[0]).toBe(first.reason);
    await untilBusy();
    second.abort();
    expect(await Promise.all([waiting[1], running])).toEqual([second.reason, second.reason]);
    await untilIdle();
    expect(await caught(model.prepare(shapes, { signal: first.signal }))).toBe(first.reason);
    await expect(model.prepare(shapes, { signal: 1 })).rejects.toThrow('options: signal: found 1, allowed an AbortSignal');
    await expect(model.prepare(shapes, null)).rejects.toThrow('options: found null');
    model.destroy();
  });
});
