'use strict';

// What script sees of the timeline beyond single dispatches: C3, C13, C14.

const { ml, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

test('C3: an input of many dispatches is held once', async () => {
  const { context } = held;
  const descriptor = float32(1 << 20);
  const graph = await buildAdder(context, descriptor);
  const [a, b, c] = await createTensors(context, 3, descriptor);
  context.writeTensor(a, new Float32Array(1 << 20).fill(1));
  context.dispatch(graph, { a, b }, { c });
  await context.readTensor(c);
  const once = context.memoryUsage();
  for (let i = 0; i < 50; i++) context.dispatch(graph, { a, b: i % 2 ? b : c }, { c: i % 2 ? c : b });
  await Promise.all([context.readTensor(b), context.readTensor(c)]);
  expect(context.memoryUsage()).toEqual(once);
  [a, b, c, graph].forEach((object) => object.destroy());
});

test('C13: dispatches go on during a long build()', async () => {
  const context = await ml.createContext();
  const [graph, [one, x, y]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
  context.writeTensor(one, new Float32Array([1, 1]));
  const builder = new MLGraphBuilder(context);
  const large = builder.constant(float32(512, 512), new Float32Array(512 * 512).fill(1e-3));
  // Products of constants are computed by build(): minutes of them, however long what is beside it takes. The context's end ends it.
  let product = large;
  for (let i = 0; i < 20_000; i++) product = builder.matmul(product, large);
  const order = [];
  const building = builder.build({ product }).then(() => order.push('built'), ({ name }) => order.push(name));
  for (let i = 0; i < 10; i++) {
    context.dispatch(graph, { a: i % 2 ? y : x, b: one }, { c: i % 2 ? x : y });
    const [sum] = await read(context, i % 2 ? x : y);
    order.push(sum);
  }
  context.destroy();
  await building;
  expect(order).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 'InvalidStateError']);
});

describe('C14: indices out of range never fail a dispatch', () => {
  const wild = [-2147483648, -4, -3, 2, 3, 2147483647];
  const indices = { dataType: 'int32', shape: [6] };

  /** Runs a graph of one operator on `[1, 2, 3]` and the wild indices. */
  async function run(make, length) {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const [x, i] = [builder.input('x', float32(3)), builder.input('i', indices)];
    const graph = await builder.build({ y: make(builder, x, i) });
    const { outputs } = await context.compute(graph, { x: Float32Array.of(1, 2, 3), i: Int32Array.from(wild) }, { y: new Float32Array(length) });
    graph.destroy();
    return [...outputs.y];
  }

  test.each([
    ['gather', (builder, x, i) => builder.gather(x, i)],
    ['gatherElements', (builder, x, i) => builder.gatherElements(x, i)],
    ['gatherND', (builder, x, i) => builder.gatherND(x, builder.reshape(i, [6, 1]))],
  ])('%s takes the nearest element', async (_, make) => {
    expect(await run(make, 6)).toEqual([1, 1, 1, 3, 3, 3]);
  });

  const nines = (builder) => builder.constant(float32(6), new Float32Array(6).fill(9));
  test.each([
    ['scatterElements', (builder, x, i) => builder.scatterElements(x, i, nines(builder))],
    ['scatterND', (builder, x, i) => builder.scatterND(x, builder.reshape(i, [6, 1]), nines(builder))],
  ])('%s writes to the nearest element', async (_, make) => {
    expect(await run(make, 3)).toEqual([9, 2, 9]);
  });
});
