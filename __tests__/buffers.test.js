'use strict';

// Which buffers are taken for which data types, and what is made of them: C4, C6, G3, and "validate buffer with
// descriptor".

const { MLGraphBuilder } = require('..');
const { createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();

const VIEWS = {
  float32: [Float32Array],
  float16: [Uint16Array, ...(globalThis.Float16Array ? [globalThis.Float16Array] : [])],
  int32: [Int32Array],
  uint32: [Uint32Array],
  int64: [BigInt64Array],
  uint64: [BigUint64Array],
  int8: [Int8Array],
  uint8: [],
  int4: [Int8Array],
  uint4: [Int8Array],
};

const ALL = [
  Int8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array,
  BigUint64Array, ...(globalThis.Float16Array ? [globalThis.Float16Array] : []),
];

/** 16 bytes of a data type. */
const ELEMENTS = { float32: 4, float16: 8, int32: 4, uint32: 4, int64: 2, uint64: 2, int8: 16, uint8: 16, int4: 32, uint4: 31 };
const BYTES = Uint8Array.from({ length: 16 }, (_, i) => i * 7 + 1);

/** The bytes of every kind of buffer, some of them in the middle of a larger one. */
function sources(View) {
  const large = new Uint8Array(48);
  large.set(BYTES, 24);
  const shared = new Uint8Array(new SharedArrayBuffer(48));
  shared.set(BYTES, 24);
  const size = View?.BYTES_PER_ELEMENT;
  return {
    ...(View && { view: new View(BYTES.slice().buffer), 'view at an offset': new View(large.buffer, 24, 16 / size) }),
    ...(View && { 'view of shared memory': new View(shared.buffer, 24, 16 / size) }),
    Uint8Array: BYTES,
    'Uint8Array at an offset': large.subarray(24, 40),
    'Uint8Array of shared memory': shared.subarray(24, 40),
    Buffer: Buffer.from(BYTES),
    ArrayBuffer: BYTES.slice().buffer,
    SharedArrayBuffer: sharedCopy(),
    DataView: new DataView(large.buffer, 24, 16),
    'DataView of shared memory': new DataView(shared.buffer, 24, 16),
  };
}

function sharedCopy() {
  const buffer = new SharedArrayBuffer(16);
  new Uint8Array(buffer).set(BYTES);
  return buffer;
}

const accepted = Object.entries(VIEWS).flatMap(([dataType, views]) =>
  [...views, undefined].flatMap((View) =>
    Object.entries(sources(View)).map(([source, buffer]) => ({ dataType, source, view: View?.name ?? '', buffer })),
  ),
);

test.each(accepted)('C6: $dataType takes a $source $view', async ({ dataType, buffer }) => {
  const { context } = held;
  const descriptor = { dataType, shape: [ELEMENTS[dataType]] };
  const tensor = await context.createTensor({ ...descriptor, readable: true, writable: true });
  context.writeTensor(tensor, buffer);
  expect(new Uint8Array(await context.readTensor(tensor))).toEqual(BYTES);
  new MLGraphBuilder(context).constant(descriptor, buffer);
  await context.createConstantTensor(descriptor, buffer);
  const destination = buffer instanceof SharedArrayBuffer || buffer instanceof ArrayBuffer ? buffer : buffer.buffer;
  context.writeTensor(tensor, new Uint8Array(16).fill(9));
  const before = new Uint8Array(destination).slice();
  await expect(context.readTensor(tensor, buffer)).resolves.toBeUndefined();
  const after = new Uint8Array(destination);
  const offset = buffer.byteOffset ?? 0;
  expect(after.slice(offset, offset + 16)).toEqual(new Uint8Array(16).fill(9));
  after.set(before);
  tensor.destroy();
});

const refused = Object.entries(VIEWS).flatMap(([dataType, views]) =>
  ALL.filter((View) => !views.includes(View) && 16 % View.BYTES_PER_ELEMENT === 0)
    .filter((View) => !(dataType.endsWith('int4') && View === Int8Array))
    .map((View) => ({ dataType, View, name: View.name })),
);

test.each(refused)('a $name is no buffer of $dataType', async ({ dataType, View }) => {
  const { context } = held;
  const descriptor = { dataType, shape: [ELEMENTS[dataType]] };
  const buffer = new View(16 / View.BYTES_PER_ELEMENT);
  const tensor = await context.createTensor({ ...descriptor, readable: true, writable: true });
  expect(() => context.writeTensor(tensor, buffer)).toThrow(TypeError);
  expect(() => new MLGraphBuilder(context).constant(descriptor, buffer)).toThrow(TypeError);
  await expect(context.createConstantTensor(descriptor, buffer)).rejects.toThrow(TypeError);
  // A read takes an Int8Array for a slice of bytes (G3).
  if (View === Int8Array) await context.readTensor(tensor, buffer);
  else await expect(context.readTensor(tensor, buffer)).rejects.toThrow(TypeError);
  tensor.destroy();
});

describe('a length that is not that of the descriptor', () => {
  test.each([0, 1, 4, 7, 9, 12, 16])('%d bytes for float32[2]', async (length) => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    for (const buffer of [new ArrayBuffer(length), new SharedArrayBuffer(length), new Uint8Array(length), new DataView(new ArrayBuffer(length))]) {
      expect(() => context.writeTensor(tensor, buffer)).toThrow(TypeError);
      await expect(context.readTensor(tensor, buffer)).rejects.toThrow(TypeError);
      expect(() => new MLGraphBuilder(context).constant(float32(2), buffer)).toThrow(TypeError);
    }
  });

  test('is that of the view, whatever its properties say', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const liar = Object.defineProperty(new Float32Array(1), 'byteLength', { value: 8 });
    expect(() => context.writeTensor(tensor, liar)).toThrow(TypeError);
    const honest = Object.defineProperty(new Float32Array([1, 2]), 'byteLength', { value: 4 });
    context.writeTensor(tensor, honest);
    expect(await read(context, tensor)).toEqual([1, 2]);
  });
});

describe('detached buffers', () => {
  const detached = () => {
    const view = new Float32Array(2);
    structuredClone(view.buffer, { transfer: [view.buffer] });
    return view;
  };

  test.each([
    ['a view', detached],
    ['a buffer', () => detached().buffer],
    ['a DataView', () => {
      const buffer = new ArrayBuffer(8);
      const view = new DataView(buffer);
      structuredClone(buffer, { transfer: [buffer] });
      return view;
    }],
  ])('%s is refused, and the message says so', async (_, make) => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    expect(() => context.writeTensor(tensor, make())).toThrow(/detached/);
    await expect(context.readTensor(tensor, make())).rejects.toThrow(/detached/);
    expect(() => new MLGraphBuilder(context).constant(float32(2), make())).toThrow(TypeError);
    await expect(context.createConstantTensor(float32(2), make())).rejects.toThrow(TypeError);
  });

  test('while a read is under way: it rejects with a TypeError, and later reads work', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const destination = new Float32Array(2);
    const reading = context.readTensor(tensor, destination);
    structuredClone(destination.buffer, { transfer: [destination.buffer] });
    await expect(reading).rejects.toThrow(TypeError);
    expect(await read(context, tensor)).toEqual([0, 0]);
  });
});

describe('C4: writeTensor() copies before it returns', () => {
  const ways = {
    'changing the array': (view) => view.fill(9),
    'detaching it': (view) => structuredClone(view.buffer, { transfer: [view.buffer] }),
    'resizing its buffer': (view) => view.buffer.resize(0),
  };

  test.each(Object.entries(ways))('%s afterwards has no effect', async (_, change) => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const view = new Float32Array(new ArrayBuffer(8, { maxByteLength: 64 }));
    view.set([3, 4]);
    context.writeTensor(tensor, view);
    change(view);
    expect(await read(context, tensor)).toEqual([3, 4]);
  });

  test('so do constant() and createConstantTensor()', async () => {
    const { context } = held;
    const builder = new MLGraphBuilder(context);
    const first = new Float32Array([1, 2]);
    const second = new Float32Array([10, 20]);
    const constant = builder.constant(float32(2), first);
    const creating = context.createConstantTensor(float32(2), second);
    first.fill(0);
    second.fill(0);
    const sum = builder.add(constant, builder.constant(await creating));
    const graph = await builder.build({ sum: builder.add(sum, builder.input('zero', float32(2))) });
    const [zero, out] = await createTensors(context, 2);
    context.dispatch(graph, { zero }, { sum: out });
    expect(await read(context, out)).toEqual([11, 22]);
  });
});

describe('resizable buffers count for what they are at the time of the call', () => {
  test('between two calls', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const buffer = new ArrayBuffer(8, { maxByteLength: 16 });
    const view = new Float32Array(buffer);
    view.set([1, 2]);
    context.writeTensor(tensor, view);
    buffer.resize(16);
    expect(() => context.writeTensor(tensor, view)).toThrow(TypeError);
    buffer.resize(4);
    expect(() => context.writeTensor(tensor, view)).toThrow(TypeError);
    buffer.resize(8);
    context.writeTensor(tensor, view);
    expect(await read(context, tensor)).toEqual([1, 0]);
  });

  test('shared memory that can grow', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const buffer = new SharedArrayBuffer(8, { maxByteLength: 16 });
    new Float32Array(buffer).set([3, 4]);
    context.writeTensor(tensor, buffer);
    const reading = context.readTensor(tensor, new Float32Array(buffer, 0, 2));
    buffer.grow(16);
    await reading;
    expect(() => context.writeTensor(tensor, buffer)).toThrow(TypeError);
    expect([...new Float32Array(buffer)]).toEqual([3, 4, 0, 0]);
  });

  test('a view that lies outside is refused', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const buffer = new ArrayBuffer(16, { maxByteLength: 16 });
    const views = [new Float32Array(buffer, 8, 2), new DataView(buffer, 8, 8)];
    buffer.resize(8);
    for (const view of views) {
      expect(() => context.writeTensor(tensor, view)).toThrow(TypeError);
      await expect(context.readTensor(tensor, view)).rejects.toThrow(TypeError);
    }
  });

  test('a destination that shrinks while it is read into rejects', async () => {
    const { context } = held;
    const [tensor] = await createTensors(context, 1);
    const buffer = new ArrayBuffer(8, { maxByteLength: 16 });
    const reading = context.readTensor(tensor, buffer);
    buffer.resize(4);
    await expect(reading).rejects.toThrow(TypeError);
  });
});

describe('G3: the memory of WebAssembly', () => {
  const memories = {
    'of its own': () => new WebAssembly.Memory({ initial: 1, maximum: 4 }),
    shared: () => new WebAssembly.Memory({ initial: 1, maximum: 4, shared: true }),
  };

  test.each(Object.entries(memories))('%s, also when it grows', async (_, make) => {
    const { context } = held;
    const memory = make();
    const [tensor] = await createTensors(context, 1);
    for (const offset of [4, 65536 - 8, 65536 + 12]) {
      if (offset > 65536) memory.grow(1);
      new Float32Array(memory.buffer, offset, 2).set([offset, 1]);
      context.writeTensor(tensor, new Uint8Array(memory.buffer, offset, 8));
      await context.readTensor(tensor, new Int8Array(memory.buffer, 16, 8));
      expect([...new Float32Array(memory.buffer, 16, 2)]).toEqual([offset, 1]);
    }
  });

  test('of its own that grows while it is read into: a TypeError, since the buffer is detached', async () => {
    const { context } = held;
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 2 });
    const [tensor] = await createTensors(context, 1);
    const reading = context.readTensor(tensor, new Uint8Array(memory.buffer, 0, 8));
    memory.grow(1);
    await expect(reading).rejects.toThrow(TypeError);
  });

  test('shared that grows while it is read into: the bytes arrive', async () => {
    const { context } = held;
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true });
    const [tensor] = await createTensors(context, 1);
    context.writeTensor(tensor, new Float32Array([5, 6]));
    const reading = context.readTensor(tensor, new Uint8Array(memory.buffer, 0, 8));
    memory.grow(1);
    await reading;
    expect([...new Float32Array(memory.buffer, 0, 2)]).toEqual([5, 6]);
  });
});
