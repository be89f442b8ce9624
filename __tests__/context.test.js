'use strict';

// Contexts: B1, B2, B3, B5, C11, G1.

const { ml, MLContext, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

describe('B1, B2, B3: createContext()', () => {
  test.each([
    [undefined],
    [{}],
    [{ accelerated: false }],
    [{ accelerated: true }],
    [{ powerPreference: 'default' }],
    [{ powerPreference: 'low-power' }],
    [{ powerPreference: 'high-performance', accelerated: false }],
    [{ deviceType: 'cpu' }],
    [{ deviceType: 'cpu', accelerated: true, powerPreference: 'high-performance' }],
    [{ numThreads: 1 }],
    [{ numThreads: 3, label: 'three' }],
    [{ performance: 'latency' }],
    [{ performance: 'throughput' }],
    [{ performance: 2, numThreads: 2 }],
    [{ performance: 99 }],
    [{ unknown: 1 }],
  ])('%p', async (options) => {
    const context = await ml.createContext(options);
    expect(context).toBeInstanceOf(MLContext);
    expect(typeof context.accelerated).toBe('boolean');
    const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c });
    expect(await read(context, c)).toEqual([1, 2]);
    context.destroy();
  });

  test('the CPU is not accelerated', async () => {
    for (const options of [{ accelerated: false }, { deviceType: 'cpu' }]) {
      const context = await ml.createContext(options);
      expect(context.accelerated).toBe(false);
      context.destroy();
    }
  });

  test('an NPU cannot be had', async () => {
    await expect(ml.createContext({ deviceType: 'npu', label: 'n' })).rejects.toThrow(
      expect.objectContaining({ name: 'NotSupportedError', message: expect.stringMatching(/^createContext \[n\]: .*npu/) }),
    );
  });

  test.each([
    [{ deviceType: 'tpu' }],
    [{ deviceType: '' }],
    [{ deviceType: null }],
    [{ powerPreference: 'fast' }],
    [{ numThreads: -1 }],
    [{ numThreads: 2 ** 32 }],
    [{ numThreads: NaN }],
    [{ performance: 'fast' }],
    [{ performance: 0 }],
    [{ performance: 1.5 }],
    [{ performance: '2' }],
    [{ performance: Symbol('s') }],
    [{ label: Symbol('s') }],
  ])('%p is a TypeError', async (options) => {
    await expect(ml.createContext(options)).rejects.toThrow(TypeError);
  });

  test.each([['fast', "'fast'"], [0, '0'], [1.5, '1.5']])('performance: %p is refused with what is allowed', async (performance, found) => {
    const message = `createContext: options: performance: found ${found}, allowed 'latency', 'throughput' or a whole number from 1 to 4294967295`;
    await expect(ml.createContext({ performance })).rejects.toThrow(expect.objectContaining({ name: 'TypeError', message }));
  });

  test('each call gives a context of its own', async () => {
    const [first, second] = await Promise.all([ml.createContext(), ml.createContext()]);
    expect(first).not.toBe(second);
    first.destroy();
    second.destroy();
  });
});

describe('B5, G1: opSupportLimits()', () => {
  const ENUMERATION = ['float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8', 'int4', 'uint4'];

  function expectTensorLimits(limits) {
    expect(Object.keys(limits).sort()).toEqual(['dataTypes', 'rankRange']);
    expect(limits.dataTypes.length).toBeGreaterThan(0);
    for (const dataType of limits.dataTypes) expect(ENUMERATION).toContain(dataType);
    expect(Number.isInteger(limits.rankRange.min) && Number.isInteger(limits.rankRange.max)).toBe(true);
    expect(limits.rankRange.min).toBeLessThanOrEqual(limits.rankRange.max);
  }

  test('has a member for each operator that there is a method for, and no other', () => {
    const { input, constant, output, maxTensorByteLength, preferredInputLayout, ...operators } = held.context.opSupportLimits();
    for (const limits of [input, constant, output]) expectTensorLimits(limits);
    expect(['nchw', 'nhwc']).toContain(preferredInputLayout);
    expect(maxTensorByteLength).toBeGreaterThanOrEqual(2 ** 31 - 1);
    expect(maxTensorByteLength).toBeLessThanOrEqual(2 ** 32 - 1);
    expect(Number.isInteger(Math.log2(maxTensorByteLength + 1))).toBe(true);
    const others = ['constructor', 'input', 'constant', 'build', 'destroy'];
    const methods = Object.getOwnPropertyNames(MLGraphBuilder.prototype).filter((name) => !others.includes(name));
    expect(Object.keys(operators).sort()).toEqual(methods.sort());
    for (const operands of Object.values(operators)) Object.values(operands).forEach(expectTensorLimits);
  });

  test('what script does with the result changes nothing', () => {
    const { context } = held;
    const before = JSON.stringify(context.opSupportLimits());
    const limits = context.opSupportLimits();
    limits.add.a.dataTypes.length = 0;
    limits.add.a.rankRange.max = -1;
    delete limits.conv2d;
    limits.input.dataTypes.push('x');
    expect(JSON.stringify(context.opSupportLimits())).toBe(before);
    expect(context.opSupportLimits().add).not.toBe(context.opSupportLimits().add);
  });

  test('what it lists for inputs and outputs works', async () => {
    const { context } = held;
    for (const dataType of context.opSupportLimits().input.dataTypes) {
      const builder = new MLGraphBuilder(context);
      const descriptor = { dataType, shape: [2] };
      expect(builder.input('x', descriptor).dataType).toBe(dataType);
      (await context.createTensor(descriptor)).destroy();
    }
  });
});

const NOTHING = { tensors: 0, graphs: 0, packed: 0, mapped: 0, constants: 0, sources: 0, plans: 0, shared: 0, scratch: 0, caches: 0, pendingWrites: 0 };

describe('C11: memoryUsage()', () => {
  test('counts, and is 0 after everything was destroyed', async () => {
    const context = await ml.createContext();
    expect(context.memoryUsage()).toEqual({ ...NOTHING, peak: 0 });
    const tensors = await createTensors(context, 3, float32(1000));
    const constant = await context.createConstantTensor(float32(500), new Float32Array(500));
    expect(context.memoryUsage().tensors).toBe(14_000);
    const graph = await buildAdder(context, float32(1000));
    const [a, b, c] = tensors;
    context.dispatch(graph, { a, b }, { c });
    await context.readTensor(c);
    for (const object of [...tensors, constant, graph]) object.destroy();
    const { peak, ...usage } = context.memoryUsage();
    expect(usage).toEqual(NOTHING);
    expect(peak).toBeGreaterThanOrEqual(14_000);
    context.destroy();
  });

  test('a context that is destroyed releases everything', async () => {
    const context = await ml.createContext();
    await createTensors(context, 3, float32(1000));
    await context.createConstantTensor(float32(500), new Float32Array(500));
    await buildAdder(context);
    context.destroy();
    await context.lost;
    expect(context.memoryUsage()).toMatchObject(NOTHING);
  });
});

test('A6, B6: lost is pending for as long as the context is well', async () => {
  const context = await ml.createContext();
  const state = await Promise.race([context.lost.then(() => 'lost'), read(context, (await createTensors(context, 1))[0])]);
  expect(state).toEqual([0, 0]);
  context.destroy();
  expect(await context.lost).toEqual({ message: 'destroy() was called on the MLContext' });
});
