'use strict';

// A3: arguments are converted as WebIDL says. The converters are tested as they are, and what script can observe of the
// order of conversions through the API.

const { ml, MLGraphBuilder } = require('..');
const webidl = require('../lib/webidl.js');
const { buildAdder, createTensors, float32, useContext } = require('./adder.js');

const throws = Symbol('a value that is refused');
const object = (value) => ({ valueOf: () => value });

const NUMBERS = {
  // [value, what [EnforceRange] unsigned long makes of it, and so on]
  enforcedUnsignedLong: [
    [0, 0],
    [-0, 0],
    [3, 3],
    [3.9, 3],
    [-0.9, 0],
    ['7', 7],
    ['', 0],
    [' 0x10 ', 16],
    [null, 0],
    [true, 1],
    [[5], 5],
    [object(6), 6],
    [new Date(8), 8],
    [2 ** 32 - 1, 2 ** 32 - 1],
    [2 ** 32 - 0.5, 2 ** 32 - 1],
    [2 ** 32, throws],
    [-1, throws],
    [-1e300, throws],
    [NaN, throws],
    [Infinity, throws],
    [-Infinity, throws],
    [undefined, throws],
    ['x', throws],
    [{}, throws],
    [5n, throws],
    [Symbol('s'), throws],
  ],
  enforcedLong: [
    [-5.9, -5],
    [-0, 0],
    [2 ** 31 - 1, 2 ** 31 - 1],
    [-(2 ** 31), -(2 ** 31)],
    [2 ** 31, throws],
    [-(2 ** 31) - 1, throws],
    [NaN, throws],
    [Infinity, throws],
    ['-3', -3],
    [1n, throws],
  ],
  unsignedLong: [
    [-1, 2 ** 32 - 1],
    [2 ** 32, 0],
    [2 ** 32 + 7.9, 7],
    [-2.5, 2 ** 32 - 2],
    [NaN, 0],
    [Infinity, 0],
    [undefined, 0],
    ['12', 12],
    [3n, throws],
    [Symbol('s'), throws],
  ],
  double: [
    [1.5, 1.5],
    [-0, -0],
    ['2.5', 2.5],
    [null, 0],
    [NaN, throws],
    [Infinity, throws],
    [-Infinity, throws],
    [undefined, throws],
    [1n, throws],
  ],
  float: [
    [0.1, Math.fround(0.1)],
    [3.4028234663852886e38, 3.4028234663852886e38],
    [3.4028235677973366e38, throws],
    [1e39, throws],
    [NaN, throws],
    [Infinity, throws],
    ['0.5', 0.5],
  ],
  // MLNumber: (bigint or unrestricted double)
  numeric: [
    [1.5, 1.5],
    [NaN, NaN],
    [-Infinity, -Infinity],
    [-0, -0],
    [9007199254740993n, 9007199254740993n],
    ['3', 3],
    ['-0', -0],
    [null, 0],
    [true, 1],
    [undefined, NaN],
    [object(9n), 9n],
    [object(-0), -0],
    [[], 0],
    [Symbol('s'), throws],
  ],
  boolean: [
    ['', false],
    ['false', true],
    [0, false],
    [NaN, false],
    [0n, false],
    [null, false],
    [{}, true],
    [Symbol('s'), true],
  ],
  usvString: [
    ['x', 'x'],
    [5, '5'],
    [null, 'null'],
    [undefined, 'undefined'],
    ['a\ud800b', 'a\ufffdb'],
    ['\udc00', '\ufffd'],
    ['\u{1f600}', '\u{1f600}'],
    [{ toString: () => 'made' }, 'made'],
    [Symbol('s'), throws],
  ],
};

describe.each(Object.entries(NUMBERS))('A3: the conversion %s', (name, cases) => {
  test.each(cases.map(([value, expected]) => ({ value, expected })))('of $value', ({ value, expected }) => {
    const convert = webidl[name];
    if (expected === throws) expect(() => convert(value)).toThrow();
    else expect(convert(value)).toBe(expected);
  });
});

describe('A3: what the user\'s own code throws goes through unchanged', () => {
  const mine = { mine: true };
  const thrower = {
    valueOf() {
      throw mine;
    },
    get x() {
      throw mine;
    },
  };

  test.each(['enforcedUnsignedLong', 'double', 'numeric'])('%s', (name) => {
    let caught;
    try {
      webidl[name](thrower);
    } catch (error) {
      caught = error;
    }
    expect(caught).toBe(mine);
  });

  test('from a getter of the options', () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(2));
    const options = {
      get label() {
        throw mine;
      },
    };
    let caught;
    try {
      builder.relu(x, options);
    } catch (error) {
      caught = error;
    }
    expect(caught).toBe(mine);
  });
});

const held = useContext();

/** An object that writes down which members are read. */
function logging(target, log) {
  return new Proxy(target, {
    get(target, key) {
      log.push(String(key));
      return Reflect.get(target, key);
    },
  });
}

describe('A3: dictionaries are read in lexicographical order, inherited ones first', () => {
  test('of an operator', () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(1, 1, 5, 5));
    const filter = builder.input('f', float32(1, 1, 3, 3));
    const log = [];
    builder.conv2d(x, filter, logging({ padding: [1, 1, 1, 1] }, log));
    expect(log).toEqual(['label', 'bias', 'dilations', 'filterLayout', 'groups', 'inputLayout', 'padding', 'strides']);
  });

  test('where upper case comes before lower case', () => {
    const builder = new MLGraphBuilder(held.context);
    const a = builder.input('a', float32(2, 2));
    const log = [];
    builder.gemm(a, a, logging({}, log));
    expect(log).toEqual(['label', 'aTranspose', 'alpha', 'bTranspose', 'beta', 'c']);
  });

  test('of createTensor(), whose label is our extension', async () => {
    const log = [];
    await held.context.createTensor(logging({ ...float32(2) }, log));
    expect(log).toEqual(['dataType', 'shape', 'exportableToGPU', 'importableToWebGPU', 'label', 'readable', 'writable']);
  });

  test('of dispatch(), compute(), readTensor() and build(), whose options are our extension', async () => {
    const { context } = held;
    const log = [];
    const builder = new MLGraphBuilder(context);
    const built = await builder.build({ y: builder.relu(builder.input('x', float32(2))) }, logging({}, log));
    const [x, y] = await createTensors(context, 2);
    context.dispatch(built, { x }, { y }, logging({}, log));
    await context.compute(built, { x: new Float32Array(2) }, { y: new Float32Array(2) }, logging({}, log));
    await context.readTensor(y, new Float32Array(2), logging({}, log));
    const { signal } = new AbortController();
    await context.readTensor(y, logging({ signal }, log));
    const all = ['priority', 'signal', 'timeout'];
    expect(log).toEqual(['cache', 'label', 'signal', 'label', ...all, 'label', ...all, ...all, ...all]);
  });

  test('of createContext()', async () => {
    const log = [];
    const context = await ml.createContext(logging({}, log));
    const extensions = ['maxQueue', 'memoryLimit', 'numThreads', 'performance'];
    expect(log).toEqual(['accelerated', 'cache', 'deviceType', 'fpMath', 'idle', 'label', ...extensions, 'powerPreference', 'priority', 'timeout']);
    context.destroy();
  });

  test('and reading stops at the first member that is wrong', () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(1, 1, 5, 5));
    const log = [];
    expect(() => builder.conv2d(x, x, logging({ groups: -1 }, log))).toThrow(TypeError);
    expect(log.at(-1)).toBe('groups');
  });
});

describe('A3: all arguments are converted before any is looked at', () => {
  test('an operand of another builder is refused after the options were read', () => {
    const builder = new MLGraphBuilder(held.context);
    const foreign = new MLGraphBuilder(held.context).input('x', float32(2));
    const log = [];
    expect(() => builder.relu(foreign, logging({}, log))).toThrow(TypeError);
    expect(log).toEqual(['label']);
  });

  test('options are not looked at when an argument before them is wrong, not even for the message', () => {
    const builder = new MLGraphBuilder(held.context);
    const unexpected = () => {
      throw new Error('looked at');
    };
    const traps = { get: unexpected, has: unexpected, ownKeys: unexpected, getOwnPropertyDescriptor: unexpected };
    expect(() => builder.relu(5, new Proxy({ label: 'x' }, traps))).toThrow(TypeError);
    expect(() => builder.relu(5, Object.defineProperty({}, 'label', { get: unexpected }))).toThrow(TypeError);
  });

  test('a builder that has built refuses after conversion', async () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(2));
    await builder.build({ y: builder.relu(x) });
    expect(() => builder.relu({})).toThrow(TypeError);
    expect(() => builder.relu(x)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    expect(() => builder.input('z')).toThrow(TypeError);
    expect(() => builder.input('z', float32(2))).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    await expect(builder.build(5)).rejects.toThrow(TypeError);
    await expect(builder.build({})).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  });
});

describe('A3: dictionaries', () => {
  test.each([undefined, null, {}, [], () => {}, new Map()])('%p is an empty one', (options) => {
    const builder = new MLGraphBuilder(held.context);
    expect(builder.relu(builder.input('x', float32(2)), options).shape).toEqual([2]);
  });

  test.each([1, 'x', true, 1n, Symbol('s')])('%p is none', (options) => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(2));
    expect(() => builder.relu(x, options)).toThrow(TypeError);
  });

  test('members that are undefined are absent, unknown members are ignored (G2)', () => {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(1, 1, 4, 4));
    const options = { padding: undefined, strides: undefined, groups: undefined, autoPad: 'same-upper', bias: undefined };
    expect(builder.conv2d(x, builder.input('w', float32(1, 1, 2, 2)), options).shape).toEqual([1, 1, 3, 3]);
    expect(builder.input('y', { ...float32(2), dimensions: [9] }).shape).toEqual([2]);
  });

  test('inherited properties count', () => {
    const builder = new MLGraphBuilder(held.context);
    expect(builder.input('x', Object.create(float32(2))).shape).toEqual([2]);
  });
});

describe('A3: sequences', () => {
  const shapeOf = (shape) => new MLGraphBuilder(held.context).input('x', { dataType: 'float32', shape }).shape;

  test.each([
    ['an array', [1, 2]],
    ['a typed array', new Uint8Array([1, 2])],
    ['a set', new Set([1, 2])],
    ['an array of strings', ['1', '2']],
    ['a generator', (function* () { yield 1; yield 2; })()],
    ['a function with an iterator', Object.assign(() => {}, { [Symbol.iterator]: () => [1, 2].values() })],
    ['a string object', new String('12')],
  ])('%s', (_, shape) => {
    expect(shapeOf(shape)).toEqual([1, 2]);
  });

  test.each([
    ['a string', '12'],
    ['a number', 2],
    ['null', null],
    ['an array-like object', { length: 1, 0: 1 }],
    ['an iterator that is no function', { [Symbol.iterator]: 5 }],
    ['an iterator that is no object', { [Symbol.iterator]: () => 5 }],
    ['a step that is no object', { [Symbol.iterator]: () => ({ next: () => 5 }) }],
    ['a hole', [1, , 2]], // eslint-disable-line no-sparse-arrays
    ['a nested array of two', [[1, 2]]],
  ])('%s is refused', (_, shape) => {
    expect(() => shapeOf(shape)).toThrow(TypeError);
  });

  test('the iterator of an array is the one that script sees', () => {
    const array = [1, 2];
    array[Symbol.iterator] = () => [7].values();
    expect(shapeOf(array)).toEqual([7]);
    const prototype = Object.getPrototypeOf([].values());
    const { next } = prototype;
    prototype.next = function () {
      const step = next.call(this);
      return step.done ? step : { done: false, value: step.value * 2 };
    };
    let shape;
    try {
      shape = shapeOf([1, 2]);
    } finally {
      prototype.next = next;
    }
    expect(shape).toEqual([2, 4]);
  });

  test('an element that cannot be converted does not close the iterator', () => {
    const log = [];
    const iterator = {
      next: () => ({ done: false, value: -1 }),
      return: () => log.push('closed'),
    };
    expect(() => shapeOf({ [Symbol.iterator]: () => iterator })).toThrow(TypeError);
    expect(log).toEqual([]);
  });

  test('elements are read one after the other, as an iterator does', () => {
    const array = [1, 2, 3];
    array[0] = {
      valueOf() {
        array.length = 2;
        return 5;
      },
    };
    expect(shapeOf(array)).toEqual([5, 2]);
  });
});

describe('A3: records', () => {
  let context, graph, tensors;

  beforeAll(async () => {
    ({ context } = held);
    graph = await buildAdder(context);
    tensors = await createTensors(context, 3);
  });

  test('own enumerable string keys only', () => {
    const [a, b, c] = tensors;
    const inputs = Object.create({ inherited: 5 }, { hidden: { value: 5, enumerable: false } });
    Object.assign(inputs, { a, b });
    context.dispatch(graph, inputs, { c });
  });

  test('an enumerable symbol is refused', () => {
    const [a, b, c] = tensors;
    expect(() => context.dispatch(graph, { a, b, [Symbol('s')]: c }, { c })).toThrow(TypeError);
    const hidden = Object.defineProperty({ a, b }, Symbol('s'), { value: 1, enumerable: false });
    context.dispatch(graph, hidden, { c });
  });

  test('[[GetOwnProperty]] and [[Get]] alternate', () => {
    const [a, b, c] = tensors;
    const log = [];
    const inputs = new Proxy({ a, b }, {
      ownKeys: (target) => (log.push('ownKeys'), Reflect.ownKeys(target)),
      getOwnPropertyDescriptor: (target, key) => (log.push(`own ${key}`), Reflect.getOwnPropertyDescriptor(target, key)),
      get: (target, key) => (log.push(`get ${key}`), target[key]),
    });
    context.dispatch(graph, inputs, { c });
    expect(log).toEqual(['ownKeys', 'own a', 'get a', 'own b', 'get b']);
  });

  test('a key that an earlier getter has deleted is left out', () => {
    const [a, b, c] = tensors;
    const inputs = {
      get a() {
        delete this.gone;
        return a;
      },
      b,
      gone: 5,
    };
    context.dispatch(graph, inputs, { c });
  });

  test('keys that become the same name: the later value wins', async () => {
    const [a, b] = tensors;
    const builder = new MLGraphBuilder(context);
    const odd = await builder.build({ y: builder.add(builder.input('\ufffd', float32(2)), builder.input('b', float32(2))) });
    const [y] = await createTensors(context, 1);
    context.dispatch(odd, { '\ud800': y, b, '\ufffd': a }, { y });
  });

  test.each([undefined, null, 5, 'x'])('%p is none', (inputs) => {
    expect(() => context.dispatch(graph, inputs, {})).toThrow(TypeError);
  });
});

describe('A3: overloads', () => {
  test('constant() with one argument takes a tensor, with two a descriptor or a data type', async () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const tensor = await context.createConstantTensor(float32(2), new Float32Array(2));
    expect(builder.constant(tensor).shape).toEqual([2]);
    expect(builder.constant(float32(3), new Float32Array(3)).shape).toEqual([3]);
    expect(builder.constant('int8', 3).dataType).toBe('int8');
    expect(builder.constant('int64', 3n).shape).toEqual([]);
    // A tensor is a descriptor too where there are two arguments.
    expect(builder.constant(tensor, new Float32Array(2)).shape).toEqual([2]);
    for (const given of [['float32'], [float32(1)], [undefined, 3], [null, 3], ['float99', 1], [3, 3], [tensor, undefined]]) {
      expect(() => builder.constant(...given)).toThrow(TypeError);
    }
  });

  test('readTensor() with a second argument wants a buffer, even if it is undefined', async () => {
    const [tensor] = await createTensors(held.context, 1);
    await expect(held.context.readTensor(tensor, undefined)).rejects.toThrow(TypeError);
    await expect(held.context.readTensor(tensor, null)).rejects.toThrow(TypeError);
    await expect(held.context.readTensor(tensor, {})).rejects.toThrow(TypeError);
  });

  test('createContext() takes a GPUDevice for what it looks like, and everything else for options', async () => {
    const device = { queue: {}, createCommandEncoder() {} };
    await expect(ml.createContext(device)).rejects.toThrow(/gpuDevice: found an object without features/);
    for (const options of [undefined, null, {}, [], () => {}]) (await ml.createContext(options)).destroy();
    for (const options of [1, 'x', true]) await expect(ml.createContext(options)).rejects.toThrow(TypeError);
  });
});

describe('A3: enumerations', () => {
  const attempt = (dataType) => () => new MLGraphBuilder(held.context).input('x', { dataType, shape: [1] }).dataType;

  test('take what converts to one of their strings', () => {
    expect(attempt({ toString: () => 'int8' })()).toBe('int8');
    expect(attempt(new String('int8'))()).toBe('int8');
  });

  test.each(['Float32', 'float32 ', '', 0, null, Symbol('s'), {}])('%p is refused', (value) => {
    expect(attempt(value)).toThrow(TypeError);
  });
});
