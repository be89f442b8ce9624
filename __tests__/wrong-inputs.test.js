'use strict';

// Inputs that no program should give, and that do no harm: the exception is the specified one, its message says what was
// wrong, and everything goes on afterwards.

const { ml, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

/** After every test the same context still works. */
afterEach(async () => {
  const { context } = held;
  const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
  context.writeTensor(a, new Float32Array([1, 2]));
  context.writeTensor(b, new Float32Array([10, 20]));
  context.dispatch(graph, { a, b }, { c });
  expect(await read(context, c)).toEqual([11, 22]);
});

test('a chain of 20,000 nodes is built and runs', async () => {
  const { context } = held;
  const builder = new MLGraphBuilder(context);
  const one = builder.constant('float32', 1);
  let y = builder.input('x', float32(1));
  for (let i = 0; i < 20_000; i++) y = builder.add(y, one);
  const graph = await builder.build({ y });
  const [x, out] = await createTensors(context, 2, float32(1));
  context.dispatch(graph, { x }, { y: out });
  expect(await read(context, out)).toEqual([20_000]);
});

test('a graph whose nodes are each used twice has 2^200 paths and is built at once', async () => {
  const { context } = held;
  const builder = new MLGraphBuilder(context);
  let y = builder.input('x', float32(1));
  for (let i = 0; i < 200; i++) y = builder.max(y, y);
  const graph = await builder.build({ y });
  const [x, out] = await createTensors(context, 2, float32(1));
  context.writeTensor(x, new Float32Array([3]));
  context.dispatch(graph, { x }, { y: out });
  expect(await read(context, out)).toEqual([3]);
});

describe('shapes whose product overflows', () => {
  const shapes = [[2 ** 31 - 1, 2], [2 ** 16, 2 ** 15], [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1], new Array(8).fill(2 ** 31 - 1), [2 ** 32 - 1]];

  test.each(shapes.map((shape) => ({ shape })))('$shape', async ({ shape }) => {
    const { context } = held;
    const descriptor = { dataType: 'int64', shape };
    const builder = new MLGraphBuilder(context);
    await expect(context.createTensor(descriptor)).rejects.toThrow(TypeError);
    await expect(context.createConstantTensor(descriptor, new ArrayBuffer(8))).rejects.toThrow(TypeError);
    expect(() => builder.input('x', descriptor)).toThrow(TypeError);
    expect(() => builder.constant(descriptor, new ArrayBuffer(8))).toThrow(TypeError);
    const x = builder.input('x', { dataType: 'int64', shape: [1] });
    expect(() => builder.expand(x, shape)).toThrow(TypeError);
  });
});

test('a tensor larger than the memory is refused or can be destroyed', async () => {
  const context = await ml.createContext();
  const enormous = { dataType: 'int64', shape: [2 ** 29] };
  const allowed = `allowed at most ${context.opSupportLimits().maxTensorByteLength} bytes`;
  const found = 'found int64[536870912], which has 4294967296 bytes';
  await expect(context.createTensor(enormous)).rejects.toThrow(`${found}, ${allowed}`);
  expect(() => new MLGraphBuilder(context).input('x', enormous)).toThrow(`${found}, ${allowed}`);
  const large = { dataType: 'int64', shape: [2 ** 28 - 1] };
  const results = await Promise.allSettled(Array.from({ length: 1000 }, () => context.createTensor(large)));
  for (const { status, value, reason } of results) {
    if (status === 'fulfilled') value.destroy();
    else expect(reason).toEqual(expect.objectContaining({ name: 'UnknownError', message: expect.stringMatching(/^createTensor.*memory/) }));
  }
  expect(context.memoryUsage().tensors).toBe(0);
  context.destroy();
});

test('a sequence that never ends is the user\'s own loop; one that throws ends', () => {
  const builder = new MLGraphBuilder(held.context);
  const mine = new RangeError('mine');
  const shape = {
    *[Symbol.iterator]() {
      yield 1;
      throw mine;
    },
  };
  expect(() => builder.input('x', { dataType: 'float32', shape })).toThrow(mine);
});

describe('script that interferes while its arguments are converted', () => {
  test('builds with the builder from a getter', async () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(2));
    const y = builder.relu(x);
    let building;
    const options = {
      get label() {
        building = builder.build({ y });
        return 'late';
      },
    };
    expect(() => builder.relu(x, options)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    await building;
  });

  test('applies an operator from a getter of another', () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(2));
    let inner;
    const options = {
      get label() {
        inner = builder.reshape(x, [2, 1]);
        return 'outer';
      },
    };
    expect(builder.relu(x, options).shape).toEqual([2]);
    expect(inner.shape).toEqual([2, 1]);
  });

  test('destroys the context from a getter', async () => {
    const context = await ml.createContext();
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    const inputs = {
      a,
      get b() {
        context.destroy();
        return b;
      },
    };
    expect(() => context.dispatch(graph, inputs, { c })).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  });

  test('destroys a tensor, or detaches a buffer, from a getter', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const data = new Float32Array(2);
    const detaching = {
      get label() {
        structuredClone(data.buffer, { transfer: [data.buffer] });
        return '';
      },
    };
    expect(() => context.writeTensor(tensor, data, detaching)).toThrow(/detached/);
    const destroying = {
      get label() {
        tensor.destroy();
        return '';
      },
    };
    expect(() => context.writeTensor(tensor, new Float32Array(2), destroying)).toThrow(/destroyed/);
  });

  test('a then() on the prototype of what a promise gives', async () => {
    const { MLTensor } = require('..');
    const { context } = held;
    Object.defineProperty(MLTensor.prototype, 'then', {
      configurable: true,
      get() {
        throw new RangeError('mine');
      },
    });
    try {
      await expect(context.createTensor(float32(2))).rejects.toThrow('mine');
    } finally {
      delete MLTensor.prototype.then;
    }
  });
});

test('a million names are as many', async () => {
  const { context } = held;
  const graph = await buildAdder(context);
  const [a] = await createTensors(context, 1);
  const inputs = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`x${i}`, a]));
  expect(() => context.dispatch(graph, inputs, {})).toThrow(TypeError);
});

test('very long labels and names', async () => {
  const { context } = held;
  const long = 'ä'.repeat(100_000);
  const builder = new MLGraphBuilder(context);
  const x = builder.input(long, float32(2));
  const graph = await builder.build({ [long]: builder.relu(x, { label: long }) }, { label: long });
  expect(graph.label).toBe(long);
  const [input, output] = await createTensors(context, 2);
  context.dispatch(graph, { [long]: input }, { [long]: output }, { label: long });
  expect(await read(context, output)).toEqual([0, 0]);
});
