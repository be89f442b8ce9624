/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// ONNX models on a context on a GPUDevice: those that are one graph for given shapes.

const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('../onnx/write.js');
const { read } = require('../adder.js');
const { newContext, onDevice } = require('./device.js');

const floats = (...numbers) => Float32Array.from(numbers);

/** y = x w + b for x of [rows, 2]. */
const affine = (rows) =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [rows, 2] }],
    outputs: [{ name: 'y', type: 'float', shape: [rows, 2] }],
    initializers: [tensor('w', 'float', [2, 2], floats(1, 2, 3, 4)), tensor('b', 'float', [2], floats(0.5, -0.5))],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['p'] },
      { op: 'Add', inputs: ['p', 'b'], outputs: ['y'] },
    ],
  });

onDevice('a model of known shapes runs on arrays and on tensors', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, affine(2));
  const { y } = await model.run({ x: floats(1, 0, 0, 1) });
  expect([...y.data]).toEqual([1.5, 1.5, 3.5, 3.5]);
  expect(model.graph.devices).toEqual(['gpu']);
  const bindings = await model.createBindings();
  bindings.write('x', floats(1, 1, 2, 2));
  bindings.dispatch();
  bindings.swap('x', 'y');
  bindings.dispatch();
  expect([...(await bindings.read('y')).data]).toEqual([4.5 + 16.5 + 0.5, 9 + 22 - 0.5, 8.5 + 34.5 + 0.5, 17 + 46 - 0.5]);
  bindings.destroy();
  model.destroy();
  expect(context.memoryUsage()).toMatchObject({ tensors: 0, graphs: 0, scratch: 0 });
});

onDevice('a model of open shapes is planned for each, and its tensors can be WebGPU\'s', async () => {
  const { context, device } = await newContext();
  const model = await loadOnnx(context, affine('rows'));
  const runs = [1, 3, 2, 3].map((rows) => model.run({ x: { data: new Float32Array(2 * rows).fill(1), shape: [rows, 2] } }));
  for (const { y } of await Promise.all(runs)) {
    expect([...y.data]).toEqual(Array.from(y.data, (_, i) => (i % 2 ? 5.5 : 4.5)));
  }
  const shared = await context.createExportableTensor({ dataType: 'float32', shape: [1, 2], readable: true, writable: true }, device);
  const fixed = await loadOnnx(context, affine(1));
  const bindings = await fixed.createBindings({ inputs: { x: shared } });
  const buffer = context.exportToGPU(shared);
  device.queue.writeBuffer(buffer, 0, floats(2, 0));
  buffer.destroy();
  bindings.dispatch();
  expect([...(await bindings.read('y')).data]).toEqual([2.5, 3.5]);
  expect(await read(context, shared)).toEqual([2, 0]);
});

onDevice('a model that is cut is refused with the node', async () => {
  const { context } = await newContext();
  const file = writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [4] }],
    outputs: [{ name: 'places', type: 'int64', shape: [1, 'found'] }],
    nodes: [{ op: 'NonZero', name: 'where', inputs: ['x'], outputs: ['places'] }],
  });
  await expect(loadOnnx(context, file, { label: 'cut' })).rejects.toThrow(
    expect.objectContaining({ name: 'NotSupportedError', message: expect.stringMatching(/loadOnnx \[cut\].*NonZero 'where'.*GPUDevice/) }),
  );
});

onDevice('what a model may take is held against its limit, and its end leaves nothing pending', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, affine('rows'), { maxBytes: 1 << 16 });
  await expect(model.run({ x: { data: new Float32Array(1 << 17), shape: [1 << 16, 2] } })).rejects.toThrow(/maxBytes/);
  const running = model.run({ x: { data: new Float32Array(8), shape: [4, 2] } });
  context.destroy();
  await expect(running).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
});
