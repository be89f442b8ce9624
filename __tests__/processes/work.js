'use strict';

// Work that takes minutes, so that a process which waits for it does not end within its limit, and small work that shows
// that everything is well.

const { ml, MLGraphBuilder } = require('../..');

const SIZE = 512;
// About 6 ms each on two cores.
const MANY = 20_000;
const matrix = { dataType: 'float32', shape: [SIZE, SIZE] };
// One product of this size takes most of a minute.
const large = { dataType: 'float32', shape: [8192, 8192] };

/** 1 + 2 through a context: the number 3. */
async function small(context) {
  const scalar = { dataType: 'float32', shape: [] };
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ sum: builder.add(builder.input('a', scalar), builder.constant('float32', 2)) });
  const a = await context.createTensor({ ...scalar, writable: true });
  const sum = await context.createTensor({ ...scalar, readable: true });
  context.writeTensor(a, new Float32Array([1]));
  context.dispatch(graph, { a }, { sum });
  return new Float32Array(await context.readTensor(sum))[0];
}

/** A context that works. */
async function open(options) {
  const context = await ml.createContext({ accelerated: false, ...options });
  const sum = await small(context);
  if (sum !== 3) throw new Error(`1 + 2 is ${sum}`);
  return context;
}

/** A product of matrices after the other, from the operand on. */
function chain(builder, operand, length) {
  let product = operand;
  for (let i = 0; i < length; i++) product = builder.matmul(product, operand);
  return product;
}

/** Starts a dispatch of a graph from `x` to `y`. @returns the tensor of `y`, which can be read */
async function start(context, graph, descriptor) {
  const x = await context.createTensor({ ...descriptor, writable: true });
  const y = await context.createTensor({ ...descriptor, readable: true });
  context.dispatch(graph, { x }, { y });
  return y;
}

/** Each starts work of minutes (the reads are shorter) and returns the promises of its end. */
const long = {
  /** Many short kernels. */
  async dispatch(context) {
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: chain(builder, builder.input('x', matrix), MANY) });
    return [context.readTensor(await start(context, graph, matrix))];
  },

  /** One long kernel. */
  async kernel(context) {
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: chain(builder, builder.input('x', large), 1) });
    return [context.readTensor(await start(context, graph, large))];
  },

  /** A long chain of element-wise operators, built and run again and again. */
  async elements(context) {
    const four = { dataType: 'float32', shape: [4] };
    const builder = new MLGraphBuilder(context);
    let y = builder.input('x', four);
    for (let i = 0; i < MANY; i++) y = builder.max(y, builder.constant('float32', i));
    const graph = await builder.build({ y });
    const x = await context.createTensor(four);
    const out = await context.createTensor({ ...four, readable: true });
    for (let i = 0; i < MANY; i++) context.dispatch(graph, { x }, { y: out });
    return [context.readTensor(out)];
  },

  /** Constants that the compiler multiplies. */
  async build(context) {
    const builder = new MLGraphBuilder(context);
    const constant = builder.constant(matrix, new Float32Array(SIZE * SIZE).fill(1 / SIZE));
    return [builder.build({ y: builder.add(builder.input('x', matrix), chain(builder, constant, MANY)) })];
  },

  /** Reads of much memory one after the other, also into memory of the caller. */
  async read(context) {
    const count = 1 << 24;
    const tensor = await context.createTensor({ dataType: 'float32', shape: [count], readable: true });
    const into = new Float32Array(count);
    return Array.from({ length: 8 }, (_, i) => (i % 2 ? context.readTensor(tensor, into) : context.readTensor(tensor)));
  },
};

/** Runs without end, of which each takes some tenths of a millisecond and is waited for; calls `begun` after some of them. */
async function runs(context, begun) {
  const square = { dataType: 'float32', shape: [SIZE / 2, SIZE / 2] };
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: chain(builder, builder.input('x', square), 1) });
  const y = await start(context, graph, square);
  const x = await context.createTensor(square);
  for (let i = 0; ; i++) {
    if (i === 50) begun();
    context.dispatch(graph, { x }, { y });
    await context.readTensor(y);
  }
}

module.exports = { long, open, runs, small };
