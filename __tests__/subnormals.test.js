'use strict';

// Numbers below 2^-126: they count as zero in products on the CPU (B8 in docs/extensions.md), and nowhere else.

const { ml, MLGraphBuilder } = require('webnn-node');

const LEAST = 2 ** -126;

/** What a graph of two inputs makes of them. */
async function computed(shapes, build, ...data) {
  const context = await ml.createContext({ accelerated: false, numThreads: 2 });
  const builder = new MLGraphBuilder(context);
  const inputs = shapes.map((shape, i) => builder.input(`x${i}`, { dataType: 'float32', shape }));
  const output = build(builder, ...inputs);
  const graph = await builder.build({ y: output });
  const named = Object.fromEntries(data.map((list, i) => [`x${i}`, Float32Array.from(list)]));
  const { outputs } = await context.compute(graph, named, { y: new Float32Array(output.shape.reduce((a, b) => a * b, 1)) });
  context.destroy();
  return [...outputs.y];
}

const filled = (count, value) => new Array(count).fill(value);

test('a product behind a sigmoid is off by less than its bound', async () => {
  // Its sums are 64 times 1.1e-40, and subnormal numbers with a large factor count as zero.
  const [rows, depth, columns] = [16, 64, 24];
  const shapes = [[rows, depth], [depth, columns]];
  const product = (factor) => computed(shapes, (builder, a, b) => builder.matmul(builder.sigmoid(a), b), filled(rows * depth, -92), filled(depth * columns, factor));
  const sigmoid = Math.exp(-92);
  for (const factor of [1, 1000]) {
    for (const y of await product(factor)) expect(Math.abs(y - depth * factor * sigmoid)).toBeLessThan(LEAST * (depth * sigmoid + depth * factor + 2 * depth));
  }
});

test('functions stay exact, also those that follow a product', async () => {
  const [y] = await computed([[1]], (builder, a) => builder.sigmoid(a), [-92]);
  expect(Math.abs(y - Math.exp(-92))).toBeLessThan(4 * 2 ** -149);
  const quotient = await computed([[4], [4]], (builder, a, b) => builder.div(builder.mul(a, b), b), filled(4, 2 ** -130), filled(4, 3));
  expect(quotient).toEqual(filled(4, 2 ** -130));
  // 2^-120 is no subnormal number, and what is 2^-140 in between is multiplied again.
  const shapes = [[8, 8], [8, 8]];
  const there = (builder, a, b) => builder.mul(builder.mul(builder.matmul(a, b), builder.constant('float32', 2 ** -20)), builder.constant('float32', 2 ** 30));
  const identity = Array.from({ length: 64 }, (_, i) => (i % 9 === 0 ? 1 : 0));
  expect(await computed(shapes, there, filled(64, 2 ** -120), identity)).toEqual(filled(64, 2 ** -110));
});

test("script's own arithmetic is not concerned", async () => {
  const before = (x) => (x / 2) * 2;
  await computed([[8, 8], [8, 8]], (builder, a, b) => builder.matmul(a, b), filled(64, 2 ** -130), filled(64, 1));
  expect(before(2 ** -1070)).toBe(2 ** -1070);
  expect(Math.fround(Math.fround(2 ** -120) * Math.fround(2 ** -20))).toBe(2 ** -140);
});
