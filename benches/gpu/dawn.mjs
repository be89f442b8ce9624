// A GPUDevice of Dawn (npm's `webgpu`), kept as long as the process: Dawn crashes when it is collected before its devices.
import { createRequire } from 'node:module';
import { create, globals } from 'webgpu';

const { isSoftware } = createRequire(import.meta.url)('../../lib/webgpu/device.js');

/** Limits that shaders of an engine may ask for. */
const LIMITS = [
  'maxStorageBufferBindingSize', 'maxBufferSize', 'maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupsPerDimension', 'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY', 'maxComputeWorkgroupSizeZ',
];
const FEATURES = ['shader-f16', 'subgroups'];

export async function openDawn() {
  Object.assign(globalThis, globals);
  const gpu = create([]);
  globalThis.dawn = gpu;
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) throw new Error('Dawn finds no adapter');
  const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
  const { vendor, architecture, device: id, description } = adapter.info;
  return {
    gpu,
    device,
    features: requiredFeatures,
    name: [description, vendor, architecture, id].filter(Boolean).join(', ') || 'an adapter without a name',
    isSoftware: isSoftware({ adapterInfo: adapter.info }) || adapter.info.isFallbackAdapter === true,
  };
}
