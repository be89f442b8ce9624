'use strict';

// A3, as the IDL harness of the web-platform-tests looks at interfaces. The specification's IDL is written down here as
// data, and the operators in operators.test.js.

const { ml, ...interfaces } = require('..');
const { buildAdder, createTensors, float32, useContext } = require('./adder.js');

const { MLGraphBuilder } = interfaces;

/** Name of the method → number of required arguments; an attribute has none. `promise` tells how it fails. */
const IDL = {
  ML: { constructor: 0, methods: { createContext: 0 }, promises: ['createContext'], attributes: [] },
  MLContext: {
    constructor: 0,
    methods: {
      dispatch: 3,
      createTensor: 1,
      createExportableTensor: 2,
      exportToGPU: 1,
      createConstantTensor: 2,
      readTensor: 1,
      writeTensor: 2,
      opSupportLimits: 0,
      destroy: 0,
      memoryUsage: 0,
      saveGraph: 2,
      loadGraph: 1,
      listGraphs: 0,
      deleteGraph: 1,
    },
    promises: ['createTensor', 'createExportableTensor', 'createConstantTensor', 'readTensor', 'lost', 'saveGraph', 'loadGraph', 'listGraphs'],
    attributes: ['accelerated', 'lost', 'label', 'fpMath'],
  },
  MLGraph: { constructor: 0, methods: { destroy: 0 }, promises: [], attributes: ['label', 'inputs', 'outputs'] },
  MLOperand: { constructor: 0, methods: {}, promises: [], attributes: ['dataType', 'shape'] },
  MLTensor: {
    constructor: 0,
    methods: { destroy: 0 },
    promises: [],
    attributes: ['dataType', 'shape', 'readable', 'writable', 'constant', 'label', 'gpuDevice', 'exportableToGPU'],
  },
  MLGraphBuilder: {
    constructor: 1,
    methods: { input: 2, constant: 1, build: 1, destroy: 0, add: 2, conv2d: 2, split: 2 },
    promises: ['build'],
    attributes: [],
  },
};

const held = useContext();

/** One object of each interface. */
async function instances() {
  const { context } = held;
  const builder = new MLGraphBuilder(context);
  return {
    ML: ml,
    MLContext: context,
    MLGraph: await buildAdder(context),
    MLGraphBuilder: builder,
    MLOperand: builder.input('x', float32(2)),
    MLTensor: (await createTensors(context, 1))[0],
  };
}

function checkMethod(prototype, name, required) {
  const property = Object.getOwnPropertyDescriptor(prototype, name);
  expect(property).toMatchObject({ writable: true, enumerable: true, configurable: true });
  expect(typeof property.value).toBe('function');
  expect(property.value.name).toBe(name);
  expect(property.value).toHaveLength(required);
  // A method is no constructor.
  expect(() => new property.value()).toThrow(TypeError);
  expect(Object.hasOwn(property.value, 'prototype')).toBe(false);
}

function checkAttribute(prototype, name) {
  const property = Object.getOwnPropertyDescriptor(prototype, name);
  expect(property).toMatchObject({ set: undefined, enumerable: true, configurable: true });
  expect(property.get.name).toBe(`get ${name}`);
  expect(property.get).toHaveLength(0);
}

/** What returns a promise rejects it and does not throw; everything else throws. */
async function expectTypeError(attempt, returnsPromise) {
  if (!returnsPromise) {
    expect(attempt).toThrow(TypeError);
    return;
  }
  let promise;
  expect(() => {
    promise = attempt();
  }).not.toThrow();
  await expect(promise).rejects.toThrow(TypeError);
}

describe.each(Object.entries(IDL))('A3: %s', (name, { constructor, methods, promises, attributes }) => {
  const Interface = interfaces[name];
  const { prototype } = Interface;

  test('the interface object', () => {
    expect(typeof Interface).toBe('function');
    expect(Interface.name).toBe(name);
    expect(Interface).toHaveLength(constructor);
    expect(Object.getPrototypeOf(Interface)).toBe(Function.prototype);
    expect(Object.getOwnPropertyDescriptor(Interface, 'length')).toMatchObject({ writable: false, enumerable: false, configurable: true });
    expect(Object.getOwnPropertyDescriptor(Interface, 'name')).toMatchObject({ writable: false, enumerable: false, configurable: true });
  });

  test('the prototype', () => {
    const flags = { writable: false, enumerable: false, configurable: false };
    expect(Object.getOwnPropertyDescriptor(Interface, 'prototype')).toMatchObject(flags);
    expect(Object.getPrototypeOf(prototype)).toBe(Object.prototype);
    expect(Object.getOwnPropertyDescriptor(prototype, 'constructor')).toEqual({
      value: Interface,
      writable: true,
      enumerable: false,
      configurable: true,
    });
    expect(Object.getOwnPropertyDescriptor(prototype, Symbol.toStringTag)).toEqual({
      value: name,
      writable: false,
      enumerable: false,
      configurable: true,
    });
    expect(Object.prototype.toString.call(prototype)).toBe(`[object ${name}]`);
  });

  test('cannot be constructed but by its own rules', () => {
    expect(() => Interface()).toThrow(TypeError);
    expect(() => new Interface()).toThrow(TypeError);
    expect(() => new Interface({})).toThrow(TypeError);
    if (constructor === 0) {
      expect(() => new Interface()).toThrow(new TypeError('Illegal constructor'));
      expect(() => new (class extends Interface {})()).toThrow('Illegal constructor');
    }
  });

  test('its methods', () => {
    for (const [method, required] of Object.entries(methods)) checkMethod(prototype, method, required);
  });

  test('its attributes', () => {
    for (const attribute of attributes) checkAttribute(prototype, attribute);
  });

  test.each([...Object.keys(methods), ...attributes])('%s refuses every receiver that is none', async (member) => {
    const others = await instances();
    delete others[name];
    const receivers = [undefined, null, 1, 'x', {}, () => {}, Interface, prototype, Object.create(prototype), Object.values(others)].flat();
    const property = Object.getOwnPropertyDescriptor(prototype, member);
    const call = property.get ?? property.value;
    for (const receiver of receivers) {
      await expectTypeError(() => Reflect.apply(call, receiver, []), promises.includes(member));
    }
  });

  test('its methods want their arguments', async () => {
    const receiver = (await instances())[name];
    for (const [method, required] of Object.entries(methods)) {
      for (let count = 0; count < required; count++) {
        await expectTypeError(() => receiver[method](...new Array(count).fill({})), promises.includes(method));
      }
    }
  });

  test('an object says what it is', async () => {
    const object = (await instances())[name];
    expect(object).toBeInstanceOf(Interface);
    expect(Object.prototype.toString.call(object)).toBe(`[object ${name}]`);
    expect(Object.keys(object)).toEqual([]);
    expect(Reflect.ownKeys(object)).toEqual([]);
  });
});

describe('A3: objects are proved by brands', () => {
  /** What a tensor is not. */
  function impostors(other) {
    const { MLTensor } = interfaces;
    return [
      undefined,
      null,
      3,
      'tensor',
      {},
      [],
      () => {},
      Object.create(MLTensor.prototype),
      Object.setPrototypeOf({ dataType: 'float32', shape: [2] }, MLTensor.prototype),
      new Proxy(other.tensor, {}),
      other.operand,
      other.foreign,
    ];
  }

  test('where an argument is another object, also one of another copy of the module', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const operand = new MLGraphBuilder(context).input('x', float32(2));
    let copy;
    jest.isolateModules(() => {
      copy = require('..');
    });
    expect(copy.MLTensor).not.toBe(interfaces.MLTensor);
    const otherContext = await copy.ml.createContext();
    const foreign = await otherContext.createTensor({ ...float32(2), readable: true, writable: true });
    for (const impostor of impostors({ tensor, operand, foreign })) {
      expect(() => context.writeTensor(impostor, new Float32Array(2))).toThrow(TypeError);
      await expect(context.readTensor(impostor)).rejects.toThrow(TypeError);
    }
    expect(() => new MLGraphBuilder(otherContext)).toThrow(TypeError);
    expect(() => new copy.MLGraphBuilder(context)).toThrow(TypeError);
    otherContext.destroy();
  });

  test('both copies of the module work side by side', async () => {
    let copy;
    jest.isolateModules(() => {
      copy = require('..');
    });
    const other = await copy.ml.createContext();
    const [mine, theirs] = await Promise.all([
      held.context.createTensor({ ...float32(2), readable: true }),
      other.createTensor({ ...float32(3), readable: true }),
    ]);
    const [first, second] = await Promise.all([held.context.readTensor(mine), other.readTensor(theirs)]);
    expect([first.byteLength, second.byteLength]).toEqual([8, 12]);
    other.destroy();
  });

  test('methods can be wrapped by tools (G6)', async () => {
    const { prototype } = interfaces.MLContext;
    const original = prototype.createTensor;
    const calls = [];
    prototype.createTensor = function (...given) {
      calls.push(given);
      return original.apply(this, given);
    };
    try {
      const tensor = await held.context.createTensor(float32(1));
      expect(tensor.shape).toEqual([1]);
      expect(calls).toHaveLength(1);
    } finally {
      prototype.createTensor = original;
    }
  });
});

test('A3: shape is a frozen array, the same each time', async () => {
  const { MLOperand, MLTensor } = await instances();
  for (const object of [MLOperand, MLTensor]) {
    expect(object.shape).toBe(object.shape);
    expect(Object.isFrozen(object.shape)).toBe(true);
    expect(Array.isArray(object.shape)).toBe(true);
    expect(object.shape).toEqual([2]);
  }
});

test('C15: devices is a frozen array, the same each time', async () => {
  const { context } = held;
  const cpu = await ml.createContext({ deviceType: 'cpu' });
  const graph = await buildAdder(cpu);
  expect(graph.devices).toEqual(['cpu']);
  expect(graph.devices).toBe(graph.devices);
  expect(Object.isFrozen(graph.devices)).toBe(true);
  expect(['cpu', 'gpu']).toContain((await buildAdder(context)).devices[0]);
  expect(() => interfaces.MLGraph.prototype.devices).toThrow(TypeError);
  cpu.destroy();
});

describe('C12: what can be destroyed can be disposed of', () => {
  const dispose = Symbol.dispose;

  // Runtimes without the symbol have nothing to dispose with.
  (dispose ? test : test.skip)('with Symbol.dispose', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const graph = await buildAdder(context);
    const [tensor] = await createTensors(context, 1);
    for (const object of [tensor, graph, builder, context]) object[dispose]();
    await expect(context.readTensor(tensor)).rejects.toThrow(TypeError);
    expect(() => builder.input('x', float32(1))).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    await context.lost;
  });
});
