'use strict';

// Values that are multiplied by a sigmoid of themselves, after whatever makes them: kernels do that in one go.

const { ml, MLGraphBuilder } = require('..');

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false, numThreads: 2 });
});
afterAll(() => context.destroy());

const special = [NaN, Infinity, -Infinity, 0, -0, 100, -100, 1e-30];
const float32 = (shape) => ({ dataType: 'float32', shape });

/** Numbers from -8 to 8, with special ones at the end. */
function numbers(count) {
  const data = Float32Array.from({ length: count }, (_, i) => (((i * 7919) % 1601) - 800) / 100);
  data.set(special.slice(0, count), Math.max(0, count - special.length));
  return data;
}

const constant = (builder, shape, data) => builder.constant(float32(shape), Float32Array.from(data));

/** What makes the value: as many numbers as there are inputs, each one the input's. */
const makers = {
  'an addition': { shape: (count) => [count], make: (builder, x) => builder.add(x, constant(builder, [1], [0])) },
  'a product': {
    shape: (count) => [count, 1],
    make: (builder, x, count) => builder.reshape(builder.matmul(x, constant(builder, [1, 1], [1])), [count]),
  },
  'a convolution': {
    shape: (count) => [1, 1, 1, count],
    make: (builder, x, count) => builder.reshape(builder.conv2d(x, constant(builder, [1, 1, 1, 1], [1])), [count]),
  },
  'a convolution whose filter is an input': {
    shape: (count) => [1, 1, 1, count],
    make: (builder, x, count, one) => builder.reshape(builder.conv2d(x, one), [count]),
  },
  'a reshape': { shape: (count) => [1, count], make: (builder, x, count) => builder.reshape(x, [count]) },
};

const factors = {
  'x sigmoid(x)': { alpha: 1, gate: (builder, y) => builder.mul(y, builder.sigmoid(y)) },
  'sigmoid(x) x': { alpha: 1, gate: (builder, y) => builder.mul(builder.sigmoid(y), y) },
  'x sigmoid(1.702 x)': {
    alpha: 1.702,
    gate: (builder, y) => builder.mul(y, builder.sigmoid(builder.mul(y, constant(builder, [], [1.702])))),
  },
  'x sigmoid(linear(x))': { alpha: -0.5, gate: (builder, y) => builder.mul(builder.sigmoid(builder.linear(y, { alpha: -0.5 })), y) },
};

const cases = Object.keys(makers).flatMap((maker) => Object.keys(factors).flatMap((factor) => [3, 8, 100, 5000].map((count) => [factor, maker, count])));

test.each(cases)('%s behind %s of %i numbers', async (factor, maker, count) => {
  const { shape, make } = makers[maker];
  const { alpha, gate } = factors[factor];
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', float32(shape(count)));
  const one = builder.input('one', float32([1, 1, 1, 1]));
  const graph = await builder.build({ y: gate(builder, make(builder, x, count, one)), one: builder.identity(one) });
  const data = numbers(count);
  const { outputs } = await context.compute(graph, { x: data.slice(), one: Float32Array.of(1) }, { y: new Float32Array(count) });
  data.forEach((value, i) => {
    // What stands in the middle is float32.
    const inner = Math.fround(Math.fround(alpha) * value);
    const expected = value * (1 / (1 + Math.exp(-inner)));
    if (Number.isFinite(expected)) expect(Math.abs(outputs.y[i] - expected)).toBeLessThanOrEqual(4e-6 * Math.abs(expected) + 1e-35);
    // An infinity times a factor of 0 has no value; as for gelu, it is the limit then.
    else if (Number.isNaN(expected) && !Number.isNaN(value)) expect(Math.abs(outputs.y[i])).toBe(0);
    else expect(outputs.y[i]).toBe(expected);
  });
  graph.destroy();
});

test('a value, a sigmoid or a multiple that is needed elsewhere stays', async () => {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', float32([64]));
  const value = builder.add(x, constant(builder, [1], [1]));
  const sigmoid = builder.sigmoid(value);
  const graph = await builder.build({ y: builder.mul(value, sigmoid), sigmoid, z: builder.neg(value) });
  const data = Float32Array.from({ length: 64 }, (_, i) => i / 16 - 2);
  const views = { y: new Float32Array(64), sigmoid: new Float32Array(64), z: new Float32Array(64) };
  const { outputs } = await context.compute(graph, { x: data.slice() }, views);
  data.forEach((number, i) => {
    const expected = 1 / (1 + Math.exp(-(number + 1)));
    expect(outputs.sigmoid[i]).toBeCloseTo(expected, 6);
    expect(outputs.y[i]).toBeCloseTo((number + 1) * expected, 5);
    expect(outputs.z[i]).toBe(-Math.fround(number + 1));
  });
});
