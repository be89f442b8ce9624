// Run by Deno (deno.test.js): contexts on the GPUDevice of Deno's own WebGPU. Prints a line of JSON: what was computed, or why nothing.
import { createRequire } from 'node:module';
import process from 'node:process';

const require = createRequire(import.meta.url);
const { ml, MLGraphBuilder } = require('../../..');
const { importExternalBuffer, requiredFeatures, requiredLimits } = require('../../../lib/webgpu.js');

const float32 = (...shape) => ({ dataType: 'float32', shape });

/** y = 2 x by a shader of script's. */
const DOUBLE = `@group(0) @binding(0) var<storage, read_write> values: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3u) { values[id.x] *= 2; }`;

function double(device, buffer, count) {
  const module = device.createShaderModule({ code: DOUBLE });
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer } }] }));
  pass.dispatchWorkgroups(count);
  pass.end();
  return encoder.finish();
}

async function tests(device) {
  const found = {};
  const uncaptured = [];
  device.addEventListener('uncapturederror', ({ error }) => uncaptured.push(error.message));
  const context = await ml.createContext(device);
  found.accelerated = context.accelerated;
  const builder = new MLGraphBuilder(context);
  const [a, b] = ['a', 'b'].map((name) => builder.input(name, float32(2, 2)));
  const weights = builder.constant(float32(2, 2), new Float32Array([1, 2, 3, 4]));
  const graph = await builder.build({ c: builder.softmax(builder.add(builder.matmul(a, weights), b), 1), d: builder.add(a, b) });
  const create = () => context.createTensor({ ...float32(2, 2), readable: true, writable: true });
  const [x, y, c, d] = await Promise.all([create(), create(), create(), create()]);
  context.writeTensor(x, new Float32Array([1, 0, 0, 1]));
  context.writeTensor(y, new Float32Array([0, 0, 0, 0]));
  context.dispatch(graph, { a: x, b: y }, { c, d });
  const read = async (tensor) => [...new Float32Array(await context.readTensor(tensor))];
  found.softmax = (await read(c)).map((value) => Math.round(value * 1000));
  found.sum = await read(d);
  // Shared with the device, without a copy.
  const shared = await context.createExportableTensor({ ...float32(2, 2), readable: true, writable: true }, device);
  context.dispatch(graph, { a: x, b: y }, { c, d: shared });
  const buffer = context.exportToGPU(shared);
  const commands = double(device, buffer, 4);
  buffer.destroy();
  context.submit([commands]);
  found.doubled = await read(shared);
  // A copy each way.
  const other = await ml.createContext({ accelerated: false });
  const tensor = await other.createTensor({ ...float32(4), readable: true, writable: true, importableToWebGPU: true });
  other.writeTensor(tensor, new Float32Array([1, 2, 3, 4]));
  const imported = await importExternalBuffer(device, { source: tensor });
  device.queue.submit([double(device, imported, 4)]);
  imported.destroy();
  found.imported = [...new Float32Array(await other.readTensor(tensor))];
  const { outputs } = await context.compute(graph, { a: new Float32Array(4).fill(1), b: new Float32Array(4).fill(2) }, { d: new Float32Array(4) });
  found.computed = [...outputs.d];
  [graph, x, y, c, d, shared].forEach((object) => object.destroy());
  const { tensors, graphs } = context.memoryUsage();
  found.left = [tensors, graphs];
  // The loss of the device.
  const pending = context.createTensor(float32(1)).then(() => {}, (error) => error.name);
  device.destroy();
  found.lost = typeof (await context.lost).message;
  await pending;
  found.uncaptured = uncaptured;
  return found;
}

const adapter = await globalThis.navigator?.gpu?.requestAdapter();
if (!adapter) {
  console.log(JSON.stringify({ why: globalThis.navigator?.gpu ? 'Deno finds no adapter' : 'this Deno has no WebGPU' }));
} else {
  const device = await adapter.requestDevice({ requiredFeatures: requiredFeatures(adapter), requiredLimits: requiredLimits(adapter) });
  try {
    console.log(JSON.stringify(await tests(device)));
  } catch (error) {
    console.log(JSON.stringify({ failed: error.stack }));
  }
}
process.exit();
