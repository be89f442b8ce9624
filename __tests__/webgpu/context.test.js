/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// F1: contexts on a GPUDevice compute on it, and keep to sections 3 to 5 of docs/extensions.md.

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { ml, MLCommandEncoder, MLExecution, MLGraphBuilder } = require('../..');
const { buildAdder, createTensors, float32, read } = require('../adder.js');
const { openDevice } = require('../../lib/webgpu/timeline.js');
const { Waiting } = require('../../lib/waiting.js');
const { ask } = require('../../lib/settle.js');
const { isSoftware, newContext, newDevice, onDevice } = require('./device.js');
const { withDriver } = require('./driver.js');

/** A tensor of a timeline without a context. */
async function tensorOn(timeline, handle) {
  let storage;
  await ask((request) => {
    storage = timeline.createTensor(request, handle, 0, [2], true, true, '');
  });
  return { storage };
}

describe('F1: a context on a GPUDevice', () => {
  onDevice('computes there, in the order of its timeline', async () => {
    const { context } = await newContext();
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    context.writeTensor(a, new Float32Array([0, 1]));
    context.writeTensor(b, new Float32Array([1, 1]));
    const [c] = await createTensors(context, 1);
    // Fibonacci, without waiting.
    const tensors = [a, b, c];
    for (let i = 0; i < 20; i++) {
      const [x, y, z] = [0, 1, 2].map((k) => tensors[(i + k) % 3]);
      context.dispatch(graph, { a: x, b: y }, { c: z });
    }
    expect(await read(context, tensors[(19 + 2) % 3])).toEqual([10946, 17711]);
    expect(graph.devices).toEqual(['gpu']);
  });

  onDevice('says what it is', async () => {
    const { context } = await newContext();
    expect(context.accelerated).toBe(!isSoftware);
    expect(context.executionModes).toEqual(['awaited', 'queued', 'timeline']);
    for (const blocking of [() => context.computeSync(), () => context.readTensorSync(), () => new MLExecution(context)]) {
      expect(blocking).toThrow(expect.objectContaining({ name: 'NotSupportedError' }));
    }
    const { maxTensorByteLength } = context.opSupportLimits();
    await expect(context.createTensor({ dataType: 'uint8', shape: [maxTensorByteLength + 1] })).rejects.toThrow(TypeError);
    context.destroy();
    await expect(context.createTensor(float32(1))).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  });

  onDevice('computes on memory of the caller, and runs what was recorded', async () => {
    const { context } = await newContext();
    const graph = await buildAdder(context);
    const { outputs } = await context.compute(graph, { a: new Float32Array([1, 2]), b: new Float32Array([3, 4]) }, { c: new Float32Array(2) });
    expect([...outputs.c]).toEqual([4, 6]);
    const [a, b, c] = await createTensors(context, 3);
    const encoder = new MLCommandEncoder(context);
    encoder.initializeGraph(graph);
    encoder.dispatch(graph, { a, b }, { c });
    encoder.dispatch(graph, { a: c, b }, { c: a });
    const commands = encoder.finish();
    context.writeTensor(b, new Float32Array([1, 2]));
    context.submit([commands, commands]);
    expect(await read(context, a)).toEqual([4, 8]);
  });

  onDevice('counts memory, and lets go of it', async () => {
    const { context } = await newContext();
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(1000));
    const graph = await builder.build({ y: builder.add(x, builder.constant(float32(1000), new Float32Array(1000))) });
    const [tensor] = await createTensors(context, 1, float32(1000));
    expect(context.memoryUsage()).toMatchObject({ tensors: 4000, graphs: 4000 });
    graph.destroy();
    tensor.destroy();
    expect(context.memoryUsage()).toMatchObject({ tensors: 0, graphs: 0, scratch: 0 });
  });

  onDevice('C18: holds no more than its limit, and loses nothing by what is refused', async () => {
    const { device } = await newContext();
    const context = await ml.createContext(device, { memoryLimit: 20_000 });
    const [tensor] = await createTensors(context, 1, float32(1000));
    context.writeTensor(tensor, new Float32Array(1000).fill(3));
    const refused = context.createTensor({ ...float32(5000), label: 'large' });
    const message = "createTensor [large]: the memoryLimit of the context is exceeded: 20000 bytes were asked for, 4000 are in use, 20000 are allowed";
    await expect(refused).rejects.toThrow(expect.objectContaining({ name: 'QuotaExceededError', message }));
    const build = async (length) => {
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', float32(length));
      return builder.build({ y: builder.add(x, builder.constant(float32(length), new Float32Array(length).fill(1))) });
    };
    const isQuota = (numbers) => expect.objectContaining({ name: 'QuotaExceededError', message: expect.stringMatching(numbers) });
    await expect(build(4500)).rejects.toThrow(isQuota(/^constant: .* 18000 bytes were asked for/));
    // Values in between.
    const builder = new MLGraphBuilder(context);
    const column = builder.input('x', float32(1000, 1));
    const product = builder.matmul(column, builder.transpose(column));
    await expect(builder.build({ y: builder.reduceSum(builder.softmax(product, 1)) })).rejects.toThrow(isQuota(/^build: .* \d{7} bytes were asked for/));
    const graph = await build(1000);
    const [sum] = await createTensors(context, 1, float32(1000));
    context.dispatch(graph, { x: tensor }, { y: sum });
    expect((await read(context, sum)).slice(0, 2)).toEqual([4, 4]);
    expect(context.memoryUsage()).toMatchObject({ tensors: 8000, graphs: 4000 });
    for (const memoryLimit of [-1, NaN, 'much']) await expect(ml.createContext(device, { memoryLimit })).rejects.toThrow(TypeError);
    context.destroy();
  });

  // In a process of its own: when V8 looks for garbage depends on what a process did before.
  onDevice('C16: tells V8 of the memory on the device, so that what script forgets is collected in time', async () => {
    const env = await withDriver(() => ({ ...process.env, NODE_NO_WARNINGS: '1' }));
    const { stdout } = spawnSync(process.execPath, [path.join(__dirname, 'forgotten.js')], { encoding: 'utf8', env });
    const { most, all } = JSON.parse(stdout);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThan(all / 2);
  });

  onDevice('C17: refuses more than may wait for the device, and goes on when that is done', async () => {
    const { device } = await newContext();
    const { timeline, handle } = await openDevice(device, { waiting: new Waiting(3) });
    const { storage } = await tensorOn(timeline, handle);
    const write = () => timeline.writeTensor(storage, new Uint8Array(8), 'mine');
    for (let i = 0; i < 3; i++) write();
    let refused;
    try {
      write();
    } catch (error) {
      refused = error;
    }
    expect(refused).toMatchObject({ code: 'OperationError', message: expect.stringMatching(/^writeTensor \[mine\]: found 3 unfinished tasks/) });
    await device.queue.onSubmittedWorkDone();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    write();
    timeline.forgetContext(handle);
  });

  onDevice('B6: is lost with its device, and all that waits for it', async () => {
    const { device, context } = await newContext();
    const graph = await buildAdder(context);
    const [a, b, c] = await createTensors(context, 3);
    context.dispatch(graph, { a, b }, { c });
    const reading = context.readTensor(c);
    device.destroy();
    const pending = [reading, context.createTensor(float32(1)), buildAdder(context)];
    const invalid = expect.objectContaining({ name: 'InvalidStateError' });
    await Promise.all(pending.map((promise) => promise.then(() => {}, (error) => expect(error).toEqual(invalid))));
    await expect(context.lost).resolves.toEqual({ message: expect.stringContaining('the device was lost') });
    expect(() => context.dispatch(graph, { a, b }, { c })).toThrow(invalid);
    await expect(ml.createContext(device)).rejects.toThrow(invalid);
  });

  onDevice('two devices do not disturb each other', async () => {
    const [one, two] = [await newContext(), await newContext()];
    const graphs = await Promise.all([one, two].map(({ context }) => buildAdder(context)));
    const tensors = await Promise.all([one, two].map(({ context }) => createTensors(context, 3)));
    [one, two].forEach(({ context }, i) => {
      const [a, b, c] = tensors[i];
      context.writeTensor(a, new Float32Array([i, 1]));
      context.dispatch(graphs[i], { a, b }, { c });
    });
    one.device.destroy();
    await one.context.lost;
    expect(await read(two.context, tensors[1][2])).toEqual([1, 1]);
    const [a, , c] = tensors[1];
    expect(() => two.context.dispatch(graphs[1], { a, b: tensors[0][1] }, { c })).toThrow(TypeError);
  });
});

describe('what a device refuses', () => {
  /** A device some of whose methods fail; its buffers are the real ones. */
  function failing(device, methods) {
    return new Proxy(device, {
      get(target, name) {
        const value = methods[name] ?? target[name];
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  onDevice('E2, E3, E4: makes tensors errored, until they are written', async () => {
    const device = await newDevice();
    let refuses = false;
    const { createCommandEncoder } = device;
    const context = await ml.createContext(failing(device, {
      createCommandEncoder(descriptor) {
        // An encoder that is not ended makes no command buffer that can be submitted.
        const encoder = Reflect.apply(createCommandEncoder, this, [descriptor]);
        if (refuses) encoder.popDebugGroup();
        return encoder;
      },
    }));
    const graph = await buildAdder(context, float32(2), { label: 'sum' });
    const [a, b, c, d] = await createTensors(context, 4);
    refuses = true;
    context.dispatch(graph, { a, b }, { c }, { label: 'first' });
    refuses = false;
    context.dispatch(graph, { a, b: c }, { c: d }, { label: 'second' });
    const failed = expect.objectContaining({ name: 'OperationError', message: expect.stringMatching(/^readTensor: .*\[first\]/) });
    await expect(context.readTensor(c)).rejects.toThrow(failed);
    const second = await context.readTensor(d).catch((error) => error);
    expect(second).toMatchObject({ name: 'OperationError', message: expect.stringMatching(/\[second\].*\[first\]/) });
    expect(second.cause.cause.message).toMatch(/^dispatch \[first\]: the device refuses/);
    // Known by now: it does not run.
    context.dispatch(graph, { a: d, b }, { c: a }, { label: 'third' });
    await expect(context.readTensor(a)).rejects.toThrow(/\[third\].*\[first\]/);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c });
    expect(await read(context, c)).toEqual([1, 2]);
  });
});
