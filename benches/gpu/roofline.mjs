// What a device can do at most, by two small shaders: multiplications with additions in registers, and a copy of memory. Takes the device of Dawn.
import { quantile } from '../statistics.mjs';

const WORKGROUP = 64;
/** Of a thread: so many independent sums of 4 numbers, each so often. */
const SUMS = 8;

/** Multiplications and additions: `rounds` of 16 for each sum. */
const arithmetic = (type) => `${type === 'f16' ? 'enable f16;' : ''}
@group(0) @binding(0) var<storage, read_write> result: array<f32>;
@group(0) @binding(1) var<uniform> settings: vec4<u32>;
@compute @workgroup_size(${WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let factor = vec4<${type}>(${type}(settings.y) * ${type}(0.5) + ${type}(id.x & 1u) * ${type}(0.001));
  let more = vec4<${type}>(${type}(settings.z));
  ${Array.from({ length: SUMS }, (_, i) => `var s${i} = vec4<${type}>(${type}(id.x & ${i}u));`).join('\n  ')}
  for (var round = 0u; round < settings.x; round += 1u) {
    ${Array.from({ length: 16 }, () => Array.from({ length: SUMS }, (_, i) => `s${i} = fma(s${i}, factor, more);`).join(' ')).join('\n    ')}
  }
  let sum = ${Array.from({ length: SUMS }, (_, i) => `s${i}`).join(' + ')};
  result[id.x & 1023u] = f32(sum.x + sum.y + sum.z + sum.w);
}`;

const copy = `
@group(0) @binding(0) var<storage, read_write> result: array<vec4<f32>>;
@group(0) @binding(1) var<uniform> settings: vec4<u32>;
@group(0) @binding(2) var<storage, read> source: array<vec4<f32>>;
@compute @workgroup_size(${WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let step = groups.x * ${WORKGROUP}u;
  for (var i = id.x; i < settings.x; i += step) { result[i] = source[i]; }
}`;

const STORAGE = 0x80;
const UNIFORM = 0x40;
const COPY_DST = 0x8;

async function prepare(device, code, settings, sizes) {
  const module = device.createShaderModule({ code });
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  const uniform = device.createBuffer({ size: 16, usage: UNIFORM | COPY_DST });
  device.queue.writeBuffer(uniform, 0, Uint32Array.from(settings));
  const [first, ...others] = sizes.map((size) => device.createBuffer({ size, usage: STORAGE }));
  const entries = [first, uniform, ...others].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const run = async (groups, times) => {
    const begin = performance.now();
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < times; i++) pass.dispatchWorkgroups(groups);
    pass.end();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - begin;
  };
  return { run, release: () => [first, uniform, ...others].forEach((buffer) => buffer.destroy()) };
}

/** Milliseconds of a dispatch: what many take more than one. */
async function timeOf({ run }, groups, forMs) {
  await run(groups, 1);
  const once = Math.max(0.02, (await run(groups, 5)) / 5);
  const times = Math.max(2, Math.min(500, Math.round(forMs / 6 / once)));
  const samples = [];
  for (let i = 0; i < 5; i++) samples.push(((await run(groups, 1 + times)) - (await run(groups, 1))) / times);
  return quantile(samples, 0.5);
}

/** @returns {Promise<{float32: number, float16?: number, bytes: number}>} operations and bytes in a second */
export async function roofline({ device, features }, { forMs, isSmall }) {
  const found = {};
  const [groups, rounds] = isSmall ? [64, 256] : [8192, 256];
  for (const [name, type] of [['float32', 'f32'], ['float16', 'f16']]) {
    if (type === 'f16' && !features.includes('shader-f16')) continue;
    const prepared = await prepare(device, arithmetic(type), [rounds, 1, 1, 0], [4096]);
    const ms = await timeOf(prepared, groups, forMs);
    found[name] = (2 * 4 * SUMS * 16 * rounds * groups * WORKGROUP * 1000) / ms;
    prepared.release();
  }
  const length = Math.min(isSmall ? 1 << 22 : 1 << 29, device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize) & ~15;
  const prepared = await prepare(device, copy, [length / 16, 0, 0, 0], [length, length]);
  const wide = Math.min(65535, Math.ceil(length / 16 / WORKGROUP / 4));
  found.bytes = (2 * length * 1000) / (await timeOf(prepared, wide, forMs));
  prepared.release();
  return found;
}
