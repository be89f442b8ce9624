'use strict';

// What script sees of the timeline: C1, C5, C7, C8, C9, E1, G5, and the steps of dispatch() in their order.

const { ml, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

const invalidState = expect.objectContaining({ name: 'InvalidStateError' });

describe('C1: everything is enqueued, and runs in the order of the data', () => {
  test.each([0, 1, 2, 3, 10, 29, 46])('the Fibonacci example of the MLTensor explainer, N = %d', async (n) => {
    const { context } = held;
    const descriptor = { dataType: 'int32', shape: [] };
    const graph = await buildAdder(context, descriptor);
    const tensors = await createTensors(context, 3, descriptor);
    context.writeTensor(tensors[0], new Int32Array([0]));
    context.writeTensor(tensors[1], new Int32Array([1]));
    for (let i = 0; i < n; i++) {
      const [a, b, c] = [0, 1, 2].map((k) => tensors[(i + k) % 3]);
      context.dispatch(graph, { a, b }, { c });
    }
    let [fibonacci, next] = [0, 1];
    for (let i = 0; i < n; i++) [fibonacci, next] = [next, (fibonacci + next) | 0];
    expect(await read(context, tensors[n % 3], Int32Array)).toEqual([fibonacci]);
  });

  test('without awaiting the tensors\' or the graph\'s creation one after the other', async () => {
    const { context } = held;
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.writeTensor(b, new Float32Array([10, 20]));
    context.dispatch(graph, { a, b }, { c });
    context.dispatch(graph, { a: c, b }, { c: a });
    // G5: one tensor is an output and then an input; reads are asked for concurrently.
    expect(await Promise.all([read(context, a), read(context, b), read(context, c)])).toEqual([[21, 42], [10, 20], [11, 22]]);
  });

  test('a chain of 1000 dispatches', async () => {
    const { context } = held;
    const graph = await buildAdder(context);
    const [one, even, odd] = await createTensors(context, 3);
    context.writeTensor(one, new Float32Array([1, 2]));
    for (let i = 0; i < 500; i++) {
      context.dispatch(graph, { a: even, b: one }, { c: odd });
      context.dispatch(graph, { a: odd, b: one }, { c: even });
    }
    expect(await read(context, even)).toEqual([1000, 2000]);
  });

  test('a new tensor is zero', async () => {
    const [tensor] = await createTensors(held.context, 1, float32(100));
    expect(await read(held.context, tensor)).toEqual(new Array(100).fill(0));
  });
});

describe('C5: a read sees what was enqueued before it, and nothing else', () => {
  test('writes', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const reads = [];
    for (let i = 0; i < 100; i++) {
      context.writeTensor(tensor, new Float32Array([i, -i]));
      reads.push(read(context, tensor));
    }
    expect(await Promise.all(reads)).toEqual(Array.from({ length: 100 }, (_, i) => [i, -i]));
  });

  test('dispatches, also into a buffer of the caller\'s', async () => {
    const { context } = held;
    const graph = await buildAdder(context);
    const [one, x, y] = await createTensors(context, 3);
    context.writeTensor(one, new Float32Array([1, 1]));
    const buffers = [];
    const reads = [];
    for (let i = 0; i < 20; i++) {
      context.dispatch(graph, { a: i % 2 ? y : x, b: one }, { c: i % 2 ? x : y });
      buffers.push(new Float32Array(2));
      reads.push(context.readTensor(i % 2 ? x : y, buffers[i]));
    }
    await Promise.all(reads);
    expect(buffers.map(([first]) => first)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });

  test('each read has a buffer of its own', async () => {
    const [tensor] = await createTensors(held.context, 1);
    const [first, second] = await Promise.all([held.context.readTensor(tensor), held.context.readTensor(tensor)]);
    expect(first).not.toBe(second);
    expect(first).toBeInstanceOf(ArrayBuffer);
  });
});

describe('the steps of dispatch()', () => {
  test('inputs and outputs in any order of their names', async () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const [p, q] = ['p', 'q'].map((name) => builder.input(name, float32(1)));
    const graph = await builder.build({ sum: builder.add(p, q), difference: builder.sub(p, q) });
    const [five, three, sum, difference] = await createTensors(context, 4, float32(1));
    context.writeTensor(five, new Float32Array([5]));
    context.writeTensor(three, new Float32Array([3]));
    context.dispatch(graph, { q: three, p: five }, { difference, sum });
    expect([await read(context, sum), await read(context, difference)]).toEqual([[8], [2]]);
  });

  test('the first that is wrong is what script hears of', async () => {
    const { context } = held;
    const [graph, [a, b, c, gone]] = await Promise.all([buildAdder(context), createTensors(context, 4)]);
    gone.destroy();
    const dispatch = (...given) => () => context.dispatch(graph, ...given);
    // A duplicate comes before a destroyed tensor, that before a wrong name.
    expect(dispatch({ a: gone, b: gone }, { c })).toThrow(/already stands/);
    expect(dispatch({ a: gone, z: b }, { c })).toThrow(/destroyed/);
    expect(dispatch({ a, z: b }, { c: a })).toThrow(/already stands/);
    expect(dispatch({ a, z: b }, { y: c })).toThrow(/'z'/);
    expect(dispatch({ a, b }, { y: c })).toThrow(/'y'/);
    graph.destroy();
    expect(dispatch({ a, b: a }, { c })).toThrow(invalidState);
  });

  test('many tensors: a duplicate is found', async () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const names = Array.from({ length: 30 }, (_, i) => `x${i}`);
    const sum = names.map((name) => builder.input(name, float32(1))).reduce((sum, x) => builder.add(sum, x));
    const graph = await builder.build({ sum });
    const tensors = await createTensors(context, 31, float32(1));
    tensors.forEach((tensor, i) => context.writeTensor(tensor, new Float32Array([i])));
    const out = tensors.pop();
    const inputs = Object.fromEntries(names.map((name, i) => [name, tensors[i]]));
    context.dispatch(graph, inputs, { sum: out });
    expect(await read(context, out)).toEqual([435]);
    expect(() => context.dispatch(graph, { ...inputs, x29: tensors[0] }, { sum: out })).toThrow(/x29.*already stands/);
    expect(() => context.dispatch(graph, inputs, { sum: tensors[7] })).toThrow(/sum.*already stands/);
  });

  test.each([
    ['another shape of the same size', { dataType: 'float32', shape: [1, 2] }],
    ['another data type of the same size', { dataType: 'int32', shape: [2] }],
    ['another size', { dataType: 'float32', shape: [3] }],
  ])('a tensor of %s is refused', async (_, descriptor) => {
    const { context } = held;
    const [graph, [a, b, c], [wrong]] = await Promise.all([
      buildAdder(context),
      createTensors(context, 3),
      createTensors(context, 1, descriptor),
    ]);
    expect(() => context.dispatch(graph, { a, b: wrong }, { c })).toThrow(TypeError);
    expect(() => context.dispatch(graph, { a, b }, { c: wrong })).toThrow(TypeError);
  });

  test('tensors need be neither readable nor writable', async () => {
    const { context } = held;
    const graph = await buildAdder(context);
    const [a, b, c] = await Promise.all([1, 2, 3].map(() => context.createTensor(float32(2))));
    context.dispatch(graph, { a, b }, { c });
  });

  test('a graph without inputs', async () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const constant = builder.constant(float32(2), new Float32Array([1, 2]));
    const graph = await builder.build({ y: builder.neg(constant) });
    const [y] = await createTensors(context, 1);
    context.dispatch(graph, {}, { y });
    expect(await read(context, y)).toEqual([-1, -2]);
  });
});

describe('C7: what was destroyed is refused, and destroying twice is harmless', () => {
  test('a tensor', async () => {
    const { context } = held;
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    b.destroy();
    b.destroy();
    expect(() => context.writeTensor(b, new Float32Array(2))).toThrow(TypeError);
    expect(() => context.dispatch(graph, { a, b }, { c })).toThrow(TypeError);
    await expect(context.readTensor(b)).rejects.toThrow(TypeError);
    await expect(context.readTensor(b, new Float32Array(2))).rejects.toThrow(TypeError);
    expect([b.dataType, b.shape, b.readable, b.writable, b.constant]).toEqual(['float32', [2], true, true, false]);
  });

  test('a constant tensor, which is not needed any more once it was used', async () => {
    const { context } = held;
    const tensor = await context.createConstantTensor(float32(2), new Float32Array([1, 2]));
    expect([tensor.constant, tensor.readable, tensor.writable]).toEqual([true, false, false]);
    const builder = new MLGraphBuilder(context);
    const doubled = builder.add(builder.constant(tensor), builder.constant(tensor));
    tensor.destroy();
    expect(() => builder.constant(tensor)).toThrow(TypeError);
    const graph = await builder.build({ doubled });
    const [out] = await createTensors(context, 1);
    context.dispatch(graph, {}, { doubled: out });
    expect(await read(context, out)).toEqual([2, 4]);
  });

  test('a graph', async () => {
    const { context } = held;
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c });
    graph.destroy();
    graph.destroy();
    expect(() => context.dispatch(graph, { a, b }, { c })).toThrow(invalidState);
    // C9: what was enqueued before still runs.
    expect(await read(context, c)).toEqual([1, 2]);
  });

  test('a context', async () => {
    const context = await ml.createContext();
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(2));
    context.destroy();
    context.destroy();
    graph.destroy();
    a.destroy();
    expect(() => context.dispatch(graph, { a, b }, { c })).toThrow(invalidState);
    expect(() => context.writeTensor(b, new Float32Array(2))).toThrow(TypeError);
    await expect(context.readTensor(b)).rejects.toThrow(TypeError);
    await expect(context.createTensor(float32(2))).rejects.toThrow(invalidState);
    await expect(context.createConstantTensor(float32(2), new Float32Array(2))).rejects.toThrow(invalidState);
    expect(() => new MLGraphBuilder(context)).toThrow(invalidState);
    expect(() => builder.relu(x)).toThrow(invalidState);
    await expect(builder.build({ y: x })).rejects.toThrow(invalidState);
    expect(context.opSupportLimits().add).toBeDefined();
    expect(context.memoryUsage()).toMatchObject({ tensors: 0, graphs: 0, scratch: 0 });
  });
});

describe('C8: tensor.destroy() rejects the pending reads', () => {
  /** Whether a promise was rejected by now; microtasks run first. */
  async function isRejected(promise) {
    let rejected = false;
    promise.catch(() => {
      rejected = true;
    });
    for (let i = 0; i < 5; i++) await null;
    return rejected;
  }

  test('with InvalidStateError, on a microtask, both forms', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const destination = new Float32Array([5, 5]);
    context.writeTensor(tensor, new Float32Array([1, 2]));
    const reads = [context.readTensor(tensor), context.readTensor(tensor, destination)];
    tensor.destroy();
    for (const reading of reads) {
      expect(await isRejected(reading)).toBe(true);
      await expect(reading).rejects.toThrow(invalidState);
    }
    // The destination is not written, however late.
    await context.readTensor((await createTensors(context, 1))[0]);
    expect([...destination]).toEqual([5, 5]);
  });

  test('and only that tensor\'s', async () => {
    const { context } = held;
    const [a, b] = await createTensors(context, 2);
    const reads = [context.readTensor(a), context.readTensor(b)];
    a.destroy();
    await expect(reads[0]).rejects.toThrow(invalidState);
    expect((await reads[1]).byteLength).toBe(8);
  });

  test('dispatches that were enqueued with it still complete', async () => {
    const { context } = held;
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c });
    a.destroy();
    b.destroy();
    expect(await read(context, c)).toEqual([1, 2]);
  });

  test('not those that have been settled', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const reading = context.readTensor(tensor);
    await reading;
    tensor.destroy();
    expect((await reading).byteLength).toBe(8);
  });
});

describe('C9: context.destroy() rejects everything pending and resolves lost', () => {
  test('whatever is pending', async () => {
    const context = await ml.createContext({ label: 'short' });
    const [tensor] = await createTensors(context, 1);
    const builder = new MLGraphBuilder(context);
    const pending = [
      context.readTensor(tensor),
      context.readTensor(tensor, new Float32Array(2)),
      context.createTensor(float32(2)),
      context.createConstantTensor(float32(2), new Float32Array(2)),
      builder.build({ y: builder.relu(builder.input('x', float32(2))) }),
    ];
    context.destroy();
    const results = await Promise.allSettled(pending);
    expect(results.map(({ reason }) => reason?.name)).toEqual(pending.map(() => 'InvalidStateError'));
    await expect(context.lost).resolves.toEqual({ message: expect.any(String) });
  });

  test('lost is one promise, and resolves before the reads reject', async () => {
    const context = await ml.createContext();
    const [tensor] = await createTensors(context, 1);
    expect(context.lost).toBe(context.lost);
    const order = [];
    context.lost.then(() => order.push('lost'));
    const reading = context.readTensor(tensor).catch(() => order.push('read'));
    context.destroy();
    await reading;
    expect(order).toEqual(['lost', 'read']);
  });

  test('other contexts go on', async () => {
    const [first, second] = await Promise.all([ml.createContext(), ml.createContext()]);
    const [tensor] = await createTensors(second, 1);
    const reading = second.readTensor(tensor);
    first.destroy();
    expect((await reading).byteLength).toBe(8);
    second.destroy();
  });
});

test('E4: a failed promise that script handles disturbs nothing else', async () => {
  const { context } = held;
  const [tensor] = await createTensors(context, 1);
  const results = await Promise.allSettled([context.readTensor({}), context.readTensor(tensor), context.createTensor({})]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected']);
});
