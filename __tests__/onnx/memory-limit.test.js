'use strict';

// C11, C18: what contexts and models hold, by use, and what they may.

const { ml, MLGraphBuilder } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { tensor, writeModel } = require('./write.js');

const WIDTH = 256;
const ROWS = 64;
const WEIGHTS = 4 * WIDTH * WIDTH;

/** Two products, one after the other, for any number of rows. */
function products() {
  const weights = (seed) => Float32Array.from({ length: WIDTH * WIDTH }, (_, k) => Math.sin(k + seed) / WIDTH);
  return writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['v'] }, { op: 'MatMul', inputs: ['v', 'b'], outputs: ['y'] }],
    initializers: [tensor('a', 'float', [WIDTH, WIDTH], weights(0.5)), tensor('b', 'float', [WIDTH, WIDTH], weights(1.5))],
  });
}

const float32 = (...shape) => ({ dataType: 'float32', shape, readable: true, writable: true });
const feeds = (rows) => ({ x: { type: 'float32', shape: [rows, WIDTH], data: new Float32Array(rows * WIDTH).fill(0.5) } });
const open = (options) => ml.createContext({ deviceType: 'cpu', ...options });
const isQuota = (numbers) => expect.objectContaining({ name: 'QuotaExceededError', message: expect.stringMatching(numbers) });
const sum = ({ tensors, graphs, sources, plans, scratch, caches, pendingWrites }) => tensors + graphs + sources + plans + scratch + caches + pendingWrites;

describe('memoryLimit of a context', () => {
  test('tensors: the numbers are told, nothing is lost, and the next smaller one works', async () => {
    const context = await open({ memoryLimit: 10_000 });
    const kept = await context.createTensor(float32(1000));
    context.writeTensor(kept, new Float32Array(1000).fill(3));
    await expect(context.createTensor(float32(2000))).rejects.toEqual(isQuota(/context.*8000 bytes were asked for, 4000 are in use, 10000 are allowed/));
    const smaller = await context.createTensor(float32(1500));
    const data = new Float32Array(1000);
    await context.readTensor(kept, data);
    expect(data.every((x) => x === 3)).toBe(true);
    expect(context.memoryUsage()).toMatchObject({ tensors: 10_000, pendingWrites: 0 });
    smaller.destroy();
    await context.createTensor(float32(1500));
    await expect(context.createConstantTensor(float32(1), new Float32Array(1))).rejects.toEqual(isQuota(/4 bytes were asked for/));
    context.destroy();
  });

  test('a write that would exceed it throws, and leaves the tensor as it was', async () => {
    const context = await open({ memoryLimit: 6000 });
    const tensor_ = await context.createTensor(float32(1000));
    expect(() => context.writeTensor(tensor_, new Float32Array(1000).fill(1))).toThrow(isQuota(/writeTensor.*4000 bytes were asked for/));
    const data = new Float32Array(1000).fill(7);
    await context.readTensor(tensor_, data);
    expect(data.every((x) => x === 0)).toBe(true);
    context.destroy();
  });

  test('constants of builders, and graphs', async () => {
    const context = await open({ memoryLimit: 100_000 });
    const builder = new MLGraphBuilder(context);
    expect(() => builder.constant(float32(WIDTH, WIDTH), new Float32Array(WIDTH * WIDTH))).toThrow(isQuota(/constant.*262144 bytes were asked for/));
    const x = builder.input('x', float32(8));
    const graph = await builder.build({ y: builder.add(x, builder.constant(float32(8), new Float32Array(8).fill(2))) });
    const [input, output] = [await context.createTensor(float32(8)), await context.createTensor(float32(8))];
    context.dispatch(graph, { x: input }, { y: output });
    const data = new Float32Array(8);
    await context.readTensor(output, data);
    expect(Array.from(data)).toEqual(new Array(8).fill(2));
    context.destroy();
  });

  test.each([['-1', -1], ['NaN', NaN], ['a word', 'much'], ['infinity', Infinity]])('%s is refused', async (_, memoryLimit) => {
    await expect(ml.createContext({ memoryLimit })).rejects.toThrow(TypeError);
  });
});

describe('memoryLimit of a model', () => {
  test('weights that exceed it are refused; the context is as it was, and another limit works', async () => {
    const context = await open();
    const bytes = products();
    const small = await loadOnnx(context, bytes, { memoryLimit: WEIGHTS }).then((model) => model.run(feeds(ROWS)), (error) => Promise.reject(error)).catch((error) => error);
    expect(small).toEqual(isQuota(/the model is exceeded/));
    const model = await loadOnnx(context, bytes, { memoryLimit: 100 * WEIGHTS });
    const { y } = await model.run(feeds(ROWS));
    expect(y.shape).toEqual([ROWS, WIDTH]);
    expect(model.memoryUsage().packed).toBeGreaterThanOrEqual(2 * WEIGHTS);
    model.destroy();
    expect(model.memoryUsage()).toMatchObject({ graphs: 0, packed: 0 });
    context.destroy();
  });

  test('a run whose intermediate values exceed it fails, and a smaller one runs', async () => {
    const context = await open();
    const model = await loadOnnx(context, products(), { memoryLimit: 6 * WEIGHTS });
    await model.run(feeds(1));
    await expect(model.run(feeds(4000))).rejects.toEqual(expect.objectContaining({ message: expect.stringContaining('memoryLimit of the model is exceeded') }));
    const { y } = await model.run(feeds(2));
    expect(y.shape).toEqual([2, WIDTH]);
    context.destroy();
  });

  test('it is counted with its context', async () => {
    const context = await open();
    const before = sum(context.memoryUsage());
    const model = await loadOnnx(context, products());
    await model.run(feeds(3));
    expect(sum(model.memoryUsage())).toBe(sum(context.memoryUsage()) - before);
    context.destroy();
  });

  test.each([['-1', -1], ['half a byte', 0.5], ['infinity', Infinity], ['a word', 'much']])('%s is refused', async (_, memoryLimit) => {
    const context = await open();
    await expect(loadOnnx(context, products(), { memoryLimit })).rejects.toThrow('memoryLimit');
    context.destroy();
  });
});
