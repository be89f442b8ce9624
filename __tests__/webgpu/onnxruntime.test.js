/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// webnn-node/onnxruntime on a GPUDevice of the program's: its tensors are GPUBuffers, and nothing is copied.

const { InferenceSession, Tensor } = require('../../lib/onnxruntime.js');
const { single, sums, value } = require('../onnxruntime/models.js');
const { newDevice, onDevice } = require('./device.js');

const STORAGE = 0x80;
const COPY_SRC = 4;
const COPY_DST = 8;

const floats = (numbers, dims) => new Tensor('float32', Float32Array.from(numbers), dims);
const feeds = () => ({ a: floats([1, 2, 3], [1, 3]), b: floats([4, 5, 6], [1, 3]) });

const create = (device, model = sums) =>
  InferenceSession.create(model, { executionProviders: [{ name: 'webgpu', device }], preferredOutputLocation: 'gpu-buffer' });

onDevice('results are buffers of the device, and can be fed back', async () => {
  const device = await newDevice();
  const session = await create(device);
  let { c } = await session.run(feeds());
  expect([c.location, c.gpuBuffer.size, c.gpuBuffer.constructor.name]).toEqual(['gpu-buffer', 12, 'GPUBuffer']);
  for (let step = 0; step < 3; step++) {
    const next = await session.run({ a: c, b: feeds().b }, ['c']);
    c.dispose();
    ({ c } = next);
  }
  expect([...(await c.getData())]).toEqual([5 + 12, 7 + 15, 9 + 18]);
  await session.release();
});

onDevice('buffers of the program\'s are inputs and outputs, in the order of the queue', async () => {
  const device = await newDevice();
  const session = await create(device);
  const make = () => device.createBuffer({ size: 12, usage: STORAGE | COPY_SRC | COPY_DST });
  const [input, output] = [make(), make()];
  const options = { dataType: 'float32', dims: [1, 3] };
  const [a, c] = [Tensor.fromGpuBuffer(input, options), Tensor.fromGpuBuffer(output, options)];
  device.queue.writeBuffer(input, 0, Float32Array.of(1, 1, 1));
  const results = await session.run({ a, b: feeds().b }, { c });
  expect(results.c).toBe(c);
  // What another session makes of it.
  const other = await create(device);
  const { c: sum } = await other.run({ a: results.c, b: feeds().b });
  expect([...(await sum.getData())]).toEqual([9, 11, 13]);
  const small = Tensor.fromGpuBuffer(input, { dataType: 'float32', dims: [2, 3] });
  await expect(session.run({ a: small, b: floats([1, 2, 3, 4, 5, 6], [2, 3]) })).rejects.toThrow(/12 bytes, allowed 24/);
  // They stay the program's.
  await session.release();
  device.queue.writeBuffer(input, 0, Float32Array.of(2, 2, 2));
});

onDevice('a model that is cut takes and gives buffers', async () => {
  const device = await newDevice();
  const session = await create(device, single({ op: 'NonZero', inputs: [value('x', 'int32', 3)], output: value('y', 'int64', 1, null) }));
  const { y } = await session.run({ x: new Tensor('int32', Int32Array.of(5, 0, 7), [3]) });
  expect([y.location, y.dims]).toEqual(['gpu-buffer', [1, 2]]);
  expect([...(await y.getData())]).toEqual([0n, 2n]);
  await session.release();
});

onDevice('what cannot be is refused by its name', async () => {
  const device = await newDevice();
  await expect(InferenceSession.create(sums, { executionProviders: [{ name: 'webgpu', device: {} }] })).rejects.toThrow(/"device" must be a GPUDevice/);
  const session = await InferenceSession.create(sums);
  const buffer = device.createBuffer({ size: 12, usage: STORAGE });
  const a = Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims: [1, 3] });
  await expect(session.run({ a, b: feeds().b })).rejects.toThrow(/\{ name: 'webgpu', device \}/);
});
