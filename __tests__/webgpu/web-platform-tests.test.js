/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// What the web-platform-tests ask of contexts on a GPUDevice in `interop` of webnn/conformance_tests/tensor.https.any.js, by the names
// of its subtests. They were written for the form of 2025 (docs/extensions.md F2 b). Where they contradict the draft, or each other,
// docs/extensions.md gives the reason, and the test has what is done here.

const { ml, MLGraphBuilder } = require('../..');
const { buildAdder, float32, read } = require('../adder.js');
const { newContext, newDevice, onDevice } = require('./device.js');
const { floatsOf, onEachFloat } = require('./gpu.js');

const exportable = { ...float32(2), readable: true, writable: true, exportableToGPU: true };
const named = (name) => expect.objectContaining({ name });

/** A context with two exportable tensors, the first of which has ones. */
async function start(device) {
  const context = await ml.createContext(device);
  const [input, output] = await Promise.all([1, 2].map(() => context.createTensor(exportable)));
  context.writeTensor(input, new Float32Array([1, 1]));
  return { context, input, output };
}

/** output = input + 1, by WebGPU. */
function increment(device, input, output) {
  device.queue.submit([onEachFloat(device, 'b[i] = a[i] + 1.0;', { a: input, b: output })]);
}

onDevice('export tensor, export then destroy buffer', async () => {
  const device = await newDevice();
  const { context, input } = await start(device);
  const buffer = await context.exportToGPU(input);
  expect([buffer.usage, buffer.size]).toEqual([0x80 | 0x4 | 0x8, 8]);
  buffer.destroy();
  expect(await read(context, input)).toEqual([1, 1]);
});

onDevice('export wrong tensor: the exception is thrown, as in the draft', async () => {
  const { context } = await newContext();
  const tensor = await context.createTensor({ ...exportable, exportableToGPU: false });
  expect(() => context.exportToGPU(tensor)).toThrow(TypeError);
});

onDevice('export big tensor: a tensor of all of maxBufferSize is refused, since one of maxTensorByteLength + 1 bytes is to be', async () => {
  const { context, device } = await newContext();
  const { maxTensorByteLength } = context.opSupportLimits();
  const largest = { ...exportable, dataType: 'uint8', shape: [device.limits.maxBufferSize - 1] };
  expect(maxTensorByteLength).toBe(device.limits.maxBufferSize - 1);
  const tensor = await context.createTensor(largest);
  expect((await context.exportToGPU(tensor)).size).toBe(device.limits.maxBufferSize);
  await expect(context.createTensor({ ...exportable, shape: [(maxTensorByteLength + 1) / 4] })).rejects.toThrow(TypeError);
});

onDevice('export then destroy tensor, destroy context after export: the buffer has the contents', async () => {
  const device = await newDevice();
  for (const end of ['tensor', 'context']) {
    const { context, input } = await start(device);
    const buffer = await context.exportToGPU(input);
    (end === 'tensor' ? input : context).destroy();
    expect(await floatsOf(device, buffer)).toEqual([1, 1]);
    buffer.destroy();
    expect(context.memoryUsage().tensors).toBe(end === 'tensor' ? 8 : 0);
  }
});

onDevice('export twice: InvalidStateError while it is rented, and the same buffer after it was given back', async () => {
  const { context, input } = await start(await newDevice());
  const exporting = context.exportToGPU(input);
  await expect(context.exportToGPU(input)).rejects.toThrow(named('InvalidStateError'));
  const buffer = await exporting;
  buffer.destroy();
  expect(await context.exportToGPU(input)).toBe(buffer);
});

onDevice('write tensor after export: one that is not writable is refused, another waits', async () => {
  const { context, input } = await start(await newDevice());
  const tensor = await context.createTensor({ ...exportable, writable: false });
  await context.exportToGPU(tensor);
  expect(() => context.writeTensor(tensor, new Float32Array(2))).toThrow(TypeError);
  const buffer = await context.exportToGPU(input);
  context.writeTensor(input, new Float32Array([5, 6]));
  buffer.destroy();
  expect(await read(context, input)).toEqual([5, 6]);
});

onDevice('dispatch gpu twice', async () => {
  const device = await newDevice();
  const { context, input, output } = await start(device);
  for (const value of [1, 2]) {
    context.writeTensor(input, new Float32Array([value, value]));
    const [from, to] = [await context.exportToGPU(input), await context.exportToGPU(output)];
    increment(device, from, to);
    expect(await floatsOf(device, to)).toEqual([value + 1, value + 1]);
    from.destroy();
    to.destroy();
  }
});

onDevice('webnn dispatch only, dispatch from webgpu then webnn: not of one tensor twice', async () => {
  const device = await newDevice();
  const { context, input, output } = await start(device);
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', float32(2));
  const graph = await builder.build({ y: builder.add(x, x) });
  const adder = await buildAdder(context);
  expect(() => context.dispatch(adder, { a: input, b: input }, { c: output })).toThrow(TypeError);
  let [from, to] = [await context.exportToGPU(input), await context.exportToGPU(output)];
  from.destroy();
  to.destroy();
  context.dispatch(graph, { x: input }, { y: output });
  expect(await read(context, output)).toEqual([2, 2]);
  [from, to] = [await context.exportToGPU(input), await context.exportToGPU(output)];
  increment(device, from, to);
  from.destroy();
  to.destroy();
  context.dispatch(graph, { x: output }, { y: input });
  [from, to] = [await context.exportToGPU(input), await context.exportToGPU(output)];
  increment(device, from, to);
  expect(await floatsOf(device, to)).toEqual([5, 5]);
});

onDevice('destroy device after export', async () => {
  const device = await newDevice();
  const { context, input } = await start(device);
  const buffer = await context.exportToGPU(input);
  device.destroy();
  buffer.destroy();
  await expect(context.readTensor(input)).rejects.toThrow(named('InvalidStateError'));
});

onDevice('destroy device before export: refused, and the context is lost with its tensors', async () => {
  const device = await newDevice();
  const { context, input } = await start(device);
  device.destroy();
  await expect(context.exportToGPU(input)).rejects.toThrow(named('InvalidStateError'));
  expect((await context.lost).message).toMatch(/device was lost/);
  await expect(context.readTensor(input)).rejects.toThrow(TypeError);
});
