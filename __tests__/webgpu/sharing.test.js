/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// F2, F3, F4: tensors that WebGPU and WebNN share, by each of the texts, on the context's own device, on another, and from the CPU.

const { ml, MLCommandEncoder } = require('../..');
const { importExternalBuffer } = require('../../lib/webgpu.js');
const { buildAdder, createTensors, float32, read } = require('../adder.js');
const { newContext, newDevice, onDevice } = require('./device.js');
const { bytesOf, floatsOf, onEachFloat } = require('./gpu.js');

const STORAGE = 0x80;
const COPY_SRC = 4;
const COPY_DST = 8;

const readable = { ...float32(2), readable: true, writable: true };

/** Doubles floats with a shader of script's. */
const double = (device, buffer) => onEachFloat(device, 'x[i] = 2 * x[i];', { x: buffer });

/** Context, device that tensors are shared with, and whether they are the same. */
const PAIRS = {
  'the device of the context': async () => ({ ...(await newContext()), shares: true }),
  'another device': async () => ({ context: (await newContext()).context, device: await newDevice(), shares: false }),
  'a context on the CPU': async () => ({ context: await ml.createContext({ accelerated: false }), device: await newDevice(), shares: false }),
};

describe.each(Object.keys(PAIRS))('F2, F3: %s', (name) => {
  const pair = PAIRS[name];

  onDevice('the draft: WebGPU computes between dispatches, and nothing is awaited', async () => {
    const { context, device, shares } = await pair();
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    const tensor = await context.createExportableTensor(readable, device);
    expect(tensor.gpuDevice).toBe(device);
    expect(a.gpuDevice).toBeNull();
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c: tensor });
    const exported = context.exportToGPU(tensor);
    if (shares) expect(typeof exported.then).toBe('undefined');
    const buffer = await exported;
    expect(buffer).toMatchObject({ size: 8, usage: STORAGE | COPY_SRC | COPY_DST });
    expect(await context.exportToGPU(tensor)).toBe(buffer);
    // Refused while it is exported.
    expect(() => context.dispatch(graph, { a, b }, { c: tensor })).toThrow(TypeError);
    expect(() => context.dispatch(graph, { a: tensor, b }, { c: a })).toThrow(TypeError);
    expect(() => context.writeTensor(tensor, new Float32Array(2))).toThrow(TypeError);
    await expect(context.readTensor(tensor)).rejects.toThrow(TypeError);
    device.queue.submit([double(device, buffer)]);
    expect(buffer.destroy()).toBeUndefined();
    context.dispatch(graph, { a: tensor, b: a }, { c: b });
    expect(await read(context, tensor)).toEqual([2, 4]);
    expect(await read(context, b)).toEqual([3, 6]);
    // Again, and destroying twice is harmless.
    buffer.destroy();
    const again = await context.exportToGPU(tensor);
    expect(await floatsOf(device, again)).toEqual([2, 4]);
    again.destroy();
    expect(await read(context, tensor)).toEqual([2, 4]);
  });

  onDevice('importExternalBuffer(): what depends on the tensor waits, and nothing else', async () => {
    const { context, device } = await pair();
    const graph = await buildAdder(context);
    const [a, b, c, d, e, zeros] = await createTensors(context, 6);
    const tensor = await context.createTensor({ ...readable, importableToWebGPU: true });
    context.writeTensor(tensor, new Float32Array([1, 2]));
    const importing = importExternalBuffer(device, { source: tensor, label: 'shared' });
    // Rented from the call on; the order of what waits is kept.
    context.writeTensor(a, new Float32Array([10, 10]));
    context.dispatch(graph, { a: tensor, b: a }, { c: b });
    context.dispatch(graph, { a: b, b: a }, { c });
    context.writeTensor(a, new Float32Array([500, 500]));
    context.dispatch(graph, { a: d, b: zeros }, { c: e });
    expect(await read(context, e)).toEqual([0, 0]);
    let isRead = false;
    const reading = read(context, c).then((values) => {
      isRead = true;
      return values;
    });
    const readingA = read(context, a);
    const buffer = await importing;
    expect(buffer.label).toBe('shared');
    await expect(importExternalBuffer(device, { source: tensor })).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    device.queue.submit([double(device, buffer)]);
    await device.queue.onSubmittedWorkDone();
    expect(isRead).toBe(false);
    buffer.destroy();
    // After the return.
    context.dispatch(graph, { a: tensor, b: zeros }, { c: d });
    expect(await reading).toEqual([22, 24]);
    expect(await readingA).toEqual([500, 500]);
    expect(await read(context, d)).toEqual([2, 4]);
  });

  onDevice('a tensor that is destroyed while WebGPU has it stays until it is given back', async () => {
    const { context, device } = await pair();
    const tensor = await context.createExportableTensor(readable, device);
    context.writeTensor(tensor, new Float32Array([1, 2]));
    const buffer = await context.exportToGPU(tensor);
    tensor.destroy();
    expect(() => context.exportToGPU(tensor)).toThrow(TypeError);
    expect(context.memoryUsage().tensors).toBe(8);
    device.queue.submit([double(device, buffer)]);
    expect(await floatsOf(device, buffer)).toEqual([2, 4]);
    buffer.destroy();
    while (context.memoryUsage().tensors > 0) await new Promise(setImmediate);
  });

  onDevice('all types and shapes, packed as readTensor() has them', async () => {
    const { context, device } = await pair();
    const cases = [['float16', [3], 6], ['int8', [5], 5], ['uint4', [3], 2], ['int64', [2], 16], ['uint8', [], 1], ['int32', [2, 3], 24]];
    for (const [dataType, shape, byteLength] of cases) {
      const tensor = await context.createExportableTensor({ dataType, shape, readable: true, writable: true }, device);
      const bytes = Uint8Array.from({ length: byteLength }, (_, i) => 17 * i + 1);
      context.writeTensor(tensor, bytes);
      const buffer = await context.exportToGPU(tensor);
      expect(buffer.size).toBe(Math.ceil(byteLength / 4) * 4);
      expect([...(await bytesOf(device, buffer))].slice(0, byteLength)).toEqual([...bytes]);
      device.queue.writeBuffer(buffer, 0, new Uint8Array(buffer.size).fill(3));
      buffer.destroy();
      expect([...new Uint8Array(await context.readTensor(tensor))]).toEqual(new Array(byteLength).fill(3));
    }
  });

  onDevice('nothing stays pending when a device is lost', async () => {
    const { context, device, shares } = await pair();
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    const tensor = await context.createTensor({ ...readable, importableToWebGPU: true });
    const buffer = await importExternalBuffer(device, { source: tensor });
    context.dispatch(graph, { a: tensor, b }, { c: a });
    const reading = context.readTensor(a);
    device.destroy();
    if (shares) await expect(reading).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    else expect((await reading).byteLength).toBe(8);
    buffer.destroy();
  });
});

describe.each(Object.keys(PAIRS).slice(1))('F4: %s', (name) => {
  onDevice('a device that is lost before the way back, or on it, leaves the tensor what it had', async () => {
    for (const gives of ['before', 'on the way']) {
      const { context, device } = await PAIRS[name]();
      const [other] = await createTensors(context, 1);
      const tensor = await context.createTensor({ ...readable, importableToWebGPU: true });
      context.writeTensor(tensor, new Float32Array([1, 2]));
      const buffer = await importExternalBuffer(device, { source: tensor });
      device.queue.submit([double(device, buffer)]);
      const reading = read(context, tensor);
      if (gives === 'on the way') buffer.destroy();
      device.destroy();
      // Work that waited goes on, and so does all that comes later.
      expect(await reading).toEqual([1, 2]);
      context.writeTensor(tensor, new Float32Array([3, 4]));
      expect(await read(context, tensor)).toEqual([3, 4]);
      expect(await read(context, other)).toEqual([0, 0]);
      buffer.destroy();
    }
  });

  const InvalidState = expect.objectContaining({ name: 'InvalidStateError', message: expect.stringContaining('the GPUDevice was destroyed or lost') });

  onDevice('for a device that is lost nothing is made, and nothing exported to it', async () => {
    for (const wasUsed of [true, false]) {
      const { context, device } = await PAIRS[name]();
      const exportable = wasUsed ? await context.createExportableTensor(readable, device) : undefined;
      const importable = await context.createTensor({ ...readable, importableToWebGPU: true });
      device.destroy();
      await device.lost;
      await expect(importExternalBuffer(device, { source: importable })).rejects.toThrow(InvalidState);
      await expect(context.createExportableTensor({ ...readable, label: 'late' }, device)).rejects.toThrow(InvalidState);
      if (wasUsed) await expect(context.exportToGPU(exportable)).rejects.toThrow(InvalidState);
      for (const tensor of wasUsed ? [exportable, importable] : [importable]) {
        context.writeTensor(tensor, new Float32Array([3, 4]));
        expect(await read(context, tensor)).toEqual([3, 4]);
      }
    }
  });

  onDevice('a device that is lost while something is exported to it', async () => {
    const { context, device } = await PAIRS[name]();
    const tensor = await context.createExportableTensor(readable, device);
    context.writeTensor(tensor, new Float32Array([1, 2]));
    const exported = context.exportToGPU(tensor);
    device.destroy();
    await device.lost;
    // Where it was there before the loss it is given back with that.
    await exported.catch((error) => expect(error).toEqual(InvalidState));
    expect(await read(context, tensor)).toEqual([1, 2]);
    await expect(context.exportToGPU(tensor)).rejects.toThrow(InvalidState);
  });
});

describe('F2', () => {
  onDevice('exportableToGPU: a promise, and a second export is refused', async () => {
    const { context, device } = await newContext();
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    const tensor = await context.createTensor({ ...readable, exportableToGPU: true });
    expect([tensor.exportableToGPU, a.exportableToGPU]).toEqual([true, false]);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c: tensor });
    const buffer = await context.exportToGPU(tensor);
    await expect(context.exportToGPU(tensor)).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    // It waits.
    context.dispatch(graph, { a: tensor, b: a }, { c: b });
    device.queue.submit([double(device, buffer)]);
    buffer.release();
    expect(await read(context, b)).toEqual([3, 6]);
  });

  onDevice('what cannot be exported is refused', async () => {
    const { context, device } = await newContext();
    const [plain] = await createTensors(context, 1);
    expect(() => context.exportToGPU(plain)).toThrow(TypeError);
    expect(() => context.exportToGPU()).toThrow(TypeError);
    expect(() => context.exportToGPU({})).toThrow(TypeError);
    await expect(importExternalBuffer(device, { source: plain })).rejects.toThrow(TypeError);
    await expect(importExternalBuffer({}, { source: plain })).rejects.toThrow(TypeError);
    await expect(context.createExportableTensor(readable, {})).rejects.toThrow(TypeError);
    await expect(context.createExportableTensor(readable)).rejects.toThrow(TypeError);
    const other = await ml.createContext({ accelerated: false });
    const exportable = await other.createTensor({ ...readable, exportableToGPU: true });
    await expect(other.exportToGPU(exportable)).rejects.toThrow(/createExportableTensor/);
    await expect(context.exportToGPU(exportable)).rejects.toThrow(TypeError);
  });

  onDevice('on the device of the context nothing is copied, and a dispatch is one submission', async () => {
    const device = await newDevice();
    const calls = [];
    const counted = (target) => new Proxy(target, {
      get(_, name) {
        const value = target[name];
        if (name === 'queue') return counted(value);
        if (typeof value !== 'function') return value;
        return (...given) => {
          calls.push(name);
          return Reflect.apply(value, target, given);
        };
      },
    });
    const proxy = counted(device);
    const context = await ml.createContext(proxy);
    const graph = await buildAdder(context);
    const tensors = await Promise.all([1, 2, 3].map(() => context.createExportableTensor(readable, proxy)));
    const [a, b, c] = tensors;
    calls.length = 0;
    context.dispatch(graph, { a, b }, { c });
    const count = (name) => calls.filter((call) => call === name).length;
    expect([count('submit'), count('createBuffer'), count('createCommandEncoder'), count('writeBuffer')]).toEqual([1, 0, 1, 0]);
    calls.length = 0;
    const buffer = context.exportToGPU(c);
    buffer.destroy();
    expect(calls).toEqual([]);
    expect(context.exportToGPU(c)).toBe(buffer);
  });
});

describe('F5: submit()', () => {
  onDevice('runs command buffers of WebGPU and of WebNN in their order', async () => {
    const { context, device } = await newContext();
    const graph = await buildAdder(context);
    const [a, b] = await Promise.all([1, 2].map(() => context.createExportableTensor(readable, device)));
    const [c] = await createTensors(context, 1);
    context.writeTensor(a, new Float32Array([1, 2]));
    // Recorded while they are exported.
    const buffers = [a, b].map((tensor) => context.exportToGPU(tensor));
    const [doubled, copied] = buffers.map((buffer) => double(device, buffer));
    buffers.forEach((buffer) => buffer.destroy());
    const encoder = new MLCommandEncoder(context);
    encoder.initializeGraph(graph);
    encoder.dispatch(graph, { a, b: c }, { c: b });
    const sum = encoder.finish();
    const more = new MLCommandEncoder(context);
    more.initializeGraph(graph);
    more.dispatch(graph, { a, b }, { c });
    context.submit([doubled, sum, copied, more.finish()]);
    expect(await read(context, b)).toEqual([4, 8]);
    expect(await read(context, c)).toEqual([6, 12]);
    expect(() => context.submit([{}])).toThrow(TypeError);
    const other = await ml.createContext({ accelerated: false });
    expect(() => other.submit([double(device, buffers[0])])).toThrow(TypeError);
    context.exportToGPU(a);
    expect(() => context.submit([sum])).toThrow(TypeError);
  });

  onDevice('waits as a whole for a tensor that is rented', async () => {
    const { context, device } = await newContext();
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    const tensor = await context.createTensor({ ...readable, exportableToGPU: true });
    context.writeTensor(a, new Float32Array([1, 2]));
    const encoder = new MLCommandEncoder(context);
    encoder.initializeGraph(graph);
    encoder.dispatch(graph, { a: tensor, b: a }, { c: b });
    const commands = encoder.finish();
    const buffer = await context.exportToGPU(tensor);
    context.submit([commands]);
    device.queue.writeBuffer(buffer, 0, new Float32Array([7, 8]));
    const reading = read(context, b);
    // The graph is needed until then.
    graph.destroy();
    buffer.destroy();
    expect(await reading).toEqual([8, 10]);
  });
});
