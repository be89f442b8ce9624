'use strict';

// MLGraphBuilder apart from its operators: input(), constant(), build() and their steps; C10.

const { ml, MLGraph, MLGraphBuilder, MLOperand } = require('..');
const { createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

const invalidState = expect.objectContaining({ name: 'InvalidStateError' });

const newBuilder = () => new MLGraphBuilder(held.context);

describe('input()', () => {
  test('gives an operand of its descriptor', () => {
    const operand = newBuilder().input('x', { dataType: 'int8', shape: [2, 3] });
    expect(operand).toBeInstanceOf(MLOperand);
    expect([operand.dataType, operand.shape]).toEqual(['int8', [2, 3]]);
  });

  test('a scalar, and ranks up to 8', () => {
    expect(newBuilder().input('x', float32()).shape).toEqual([]);
    expect(newBuilder().input('x', float32(1, 2, 1, 2, 1, 2, 1, 2)).shape).toHaveLength(8);
  });

  test.each([
    ['an empty name', '', float32(1)],
    ['a dimension of 0', 'x', float32(2, 0)],
    ['a dimension beyond long', 'x', float32(2 ** 31)],
    ['a rank of 9', 'x', float32(1, 1, 1, 1, 1, 1, 1, 1, 1)],
    ['too many elements', 'x', float32(2 ** 16, 2 ** 16)],
    ['a product beyond 64 bits', 'x', float32(2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1, 4)],
  ])('%s is a TypeError', (_, name, descriptor) => {
    expect(() => newBuilder().input(name, descriptor)).toThrow(TypeError);
  });

  test('a name is used once, also after a failure', () => {
    const builder = newBuilder();
    expect(() => builder.input('x', float32(0))).toThrow(TypeError);
    builder.input('x', float32(1));
    expect(() => builder.input('x', float32(1))).toThrow(TypeError);
    builder.input('X', float32(1));
  });

  test('names are USVStrings', () => {
    const builder = newBuilder();
    builder.input('\ud800', float32(1));
    expect(() => builder.input('\ufffd', float32(1))).toThrow(TypeError);
    expect(builder.input(Object('y'), float32(1)).shape).toEqual([1]);
  });
});

describe('constant()', () => {
  /** Runs `identity(constant)` and reads the result. */
  async function valueOf(make, View) {
    const builder = newBuilder();
    const constant = make(builder);
    const descriptor = { dataType: constant.dataType, shape: constant.shape };
    const graph = await builder.build({ y: builder.identity(constant) });
    const [y] = await createTensors(held.context, 1, descriptor);
    held.context.dispatch(graph, {}, { y });
    return read(held.context, y, View);
  }

  test.each([
    ['float32', 0.1, Float32Array, Math.fround(0.1)],
    ['float32', -Infinity, Float32Array, -Infinity],
    ['float32', NaN, Float32Array, NaN],
    ['float32', 2n ** 70n, Float32Array, 2 ** 70],
    ['int32', -7, Int32Array, -7],
    ['int32', '12', Int32Array, 12],
    ['uint32', 2 ** 32 - 1, Uint32Array, 2 ** 32 - 1],
    ['int64', 2n ** 62n + 1n, BigInt64Array, 2n ** 62n + 1n],
    ['int64', -(2n ** 63n), BigInt64Array, -(2n ** 63n)],
    ['uint64', 2n ** 64n - 1n, BigUint64Array, 2n ** 64n - 1n],
    ['int8', 300, Int8Array, 127],
    ['uint8', -1, Uint8Array, 0],
  ])('constant(%p, %p)', async (dataType, value, View, expected) => {
    expect(await valueOf((builder) => builder.constant(dataType, value), View)).toEqual([expected]);
  });

  test('from a buffer', async () => {
    const data = [1.5, -2, 3];
    expect(await valueOf((builder) => builder.constant(float32(3), new Float32Array(data)), Float32Array)).toEqual(data);
  });

  test('from a tensor', async () => {
    const tensor = await held.context.createConstantTensor(float32(2), new Float32Array([4, 5]));
    expect(await valueOf((builder) => builder.constant(tensor), Float32Array)).toEqual([4, 5]);
  });

  test('four-bit elements share bytes (extension)', () => {
    const builder = newBuilder();
    expect(builder.constant({ dataType: 'int4', shape: [3] }, new Int8Array(2)).dataType).toBe('int4');
    expect(builder.constant({ dataType: 'uint4', shape: [4] }, new Uint8Array(2)).dataType).toBe('uint4');
    expect(() => builder.constant({ dataType: 'uint4', shape: [4] }, new Uint8Array(4))).toThrow(TypeError);
  });

  test.each([
    ['a descriptor that cannot be', (builder) => builder.constant(float32(0), new Float32Array(0))],
    ['too few bytes', (builder) => builder.constant(float32(2), new Float32Array(1))],
    ['no buffer', (builder) => builder.constant(float32(1), [1])],
    ['no value', (builder) => builder.constant('float32')],
    ['a symbol', (builder) => builder.constant('float32', Symbol('s'))],
  ])('%s is a TypeError', (_, attempt) => {
    expect(() => attempt(newBuilder())).toThrow(TypeError);
  });
});

describe('build()', () => {
  test('gives a graph', async () => {
    const builder = newBuilder();
    const graph = await builder.build({ y: builder.relu(builder.input('x', float32(2))) });
    expect(graph).toBeInstanceOf(MLGraph);
  });

  test('a builder makes one graph', async () => {
    const builder = newBuilder();
    const y = builder.relu(builder.input('x', float32(2)));
    const building = builder.build({ y });
    await expect(builder.build({ y })).rejects.toThrow(invalidState);
    expect(() => builder.relu(y)).toThrow(invalidState);
    expect(() => builder.constant('float32', 1)).toThrow(invalidState);
    await building;
    expect(y.shape).toEqual([2]);
  });

  test('a build() that was refused leaves the builder as it was', async () => {
    const builder = newBuilder();
    const x = builder.input('x', float32(2));
    for (const outputs of [{}, { x }, { '': builder.relu(x) }, { y: newBuilder().input('y', float32(2)) }, { y: 5 }, 5]) {
      await expect(builder.build(outputs)).rejects.toThrow(TypeError);
    }
    await builder.build({ y: builder.relu(x) });
  });

  test('one operand under two names', async () => {
    const { context } = held;
    const builder = newBuilder();
    const y = builder.neg(builder.input('x', float32(2)));
    const graph = await builder.build({ first: y, second: y });
    const [x, first, second] = await createTensors(context, 3);
    context.writeTensor(x, new Float32Array([1, 2]));
    context.dispatch(graph, { x }, { first, second });
    expect([await read(context, first), await read(context, second)]).toEqual([[-1, -2], [-1, -2]]);
  });

  test('inputs that no output needs are no inputs of the graph', async () => {
    const { context } = held;
    const builder = newBuilder();
    const [x, unused] = ['x', 'unused'].map((name) => builder.input(name, float32(2)));
    builder.relu(unused);
    const graph = await builder.build({ y: builder.relu(x) });
    const [tensor, other, y] = await createTensors(context, 3);
    context.dispatch(graph, { x: tensor }, { y });
    expect(() => context.dispatch(graph, { x: tensor, unused: other }, { y })).toThrow(TypeError);
  });

  test('names that only a map can hold', async () => {
    const { context } = held;
    const names = ['__proto__', 'constructor', 'toString', '0', 'ä', '\u{1f600}', ' '];
    const builder = newBuilder();
    const sum = names.map((name) => builder.input(name, float32(1))).reduce((sum, x) => builder.add(sum, x));
    const graph = await builder.build(Object.defineProperty({}, '__proto__', { value: sum, enumerable: true }));
    const tensors = await createTensors(context, names.length + 1, float32(1));
    tensors.forEach((tensor, i) => context.writeTensor(tensor, new Float32Array([2 ** i])));
    const record = (entries) => {
      const result = Object.create(null);
      for (const [name, value] of entries) result[name] = value;
      return result;
    };
    const out = tensors.at(-1);
    context.dispatch(graph, record(names.map((name, i) => [name, tensors[i]])), record([['__proto__', out]]));
    expect(await read(context, out)).toEqual([2 ** names.length - 1]);
  });
});

describe('C10: destroy() of a builder', () => {
  test('ends it', async () => {
    const builder = newBuilder();
    const y = builder.relu(builder.constant(float32(2), new Float32Array(2)));
    builder.destroy();
    builder.destroy();
    expect(() => builder.relu(y)).toThrow(invalidState);
    expect(() => builder.input('x', float32(1))).toThrow(invalidState);
    await expect(builder.build({ y })).rejects.toThrow(invalidState);
    expect([y.dataType, y.shape]).toEqual(['float32', [2]]);
  });

  test('after build() it does nothing', async () => {
    const builder = newBuilder();
    const building = builder.build({ y: builder.relu(builder.input('x', float32(2))) });
    builder.destroy();
    expect(await building).toBeInstanceOf(MLGraph);
  });
});

describe('operands belong to their builder', () => {
  test('also where both builders are of one context', () => {
    const x = newBuilder().input('x', float32(2));
    expect(() => newBuilder().relu(x)).toThrow(TypeError);
  });

  test('an id that two builders have in common is not confused', async () => {
    const [first, second] = [newBuilder(), newBuilder()];
    const x = first.input('x', float32(2));
    second.input('x', float32(3));
    expect(() => second.relu(x)).toThrow(TypeError);
    expect(first.relu(x).shape).toEqual([2]);
  });
});

test('a class that inherits from MLGraphBuilder works', () => {
  class Mine extends MLGraphBuilder {
    double(x) {
      return this.add(x, x);
    }
  }
  const builder = new Mine(held.context);
  expect(builder.double(builder.input('x', float32(2))).shape).toEqual([2]);
});

test('a builder keeps its context alive and can be used after others are gone', async () => {
  const context = await ml.createContext();
  const builders = Array.from({ length: 50 }, () => new MLGraphBuilder(context));
  builders.slice(0, 49).forEach((builder) => builder.destroy());
  expect(builders[49].input('x', float32(1)).shape).toEqual([1]);
  context.destroy();
});
