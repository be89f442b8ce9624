'use strict';

// What tests do with buffers by WebGPU alone.

const COPY_DST = 8;
const MAP_READ = 1;

/**
 * Commands that do something for each float of buffers of one size.
 * @param {GPUDevice} device
 * @param {string} body WGSL, where `i` is the position
 * @param {Record<string, GPUBuffer>} buffers by their names in it
 */
function onEachFloat(device, body, buffers) {
  const names = Object.keys(buffers);
  const code = `${names.map((name, i) => `@group(0) @binding(${i}) var<storage, read_write> ${name}: array<f32>;`).join('\n')}
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { let i = id.x; ${body} }`;
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module: device.createShaderModule({ code }) } });
  const entries = names.map((name, binding) => ({ binding, resource: { buffer: buffers[name] } }));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(buffers[names[0]].size / 4);
  pass.end();
  return encoder.finish();
}

async function bytesOf(device, buffer) {
  const staging = device.createBuffer({ size: buffer.size, usage: MAP_READ | COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(1);
  return new Uint8Array(staging.getMappedRange()).slice();
}

const floatsOf = async (device, buffer) => [...new Float32Array((await bytesOf(device, buffer)).buffer)];

module.exports = { bytesOf, floatsOf, onEachFloat };
