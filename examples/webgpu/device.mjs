// A WebGPU device in Node: Dawn, of the package `webgpu`. Where the machine has no GPU that it takes, SwiftShader is used if it is there.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { create, globals } from 'webgpu';
import { requiredFeatures, requiredLimits } from 'webnn-node/webgpu';

/** Where `.ci/run` puts the driver. */
const SWIFTSHADER = fileURLToPath(new URL('../../target/swiftshader/vk_swiftshader_icd.json', import.meta.url));

export async function openDevice() {
  Object.assign(globalThis, globals);
  // Among the drivers of the machine; Dawn takes a GPU first.
  if (existsSync(SWIFTSHADER)) process.env.VK_ADD_DRIVER_FILES ??= SWIFTSHADER;
  let gpu = create([]);
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    throw new Error('Dawn finds no GPU. A driver in software is SwiftShader, which Chromium brings along: name its vk_swiftshader_icd.json in VK_DRIVER_FILES');
  }
  const device = await adapter.requestDevice({ requiredLimits: requiredLimits(adapter), requiredFeatures: requiredFeatures(adapter) });
  const { device: name, description } = adapter.info;
  // Dawn is there for as long as somebody has it, and crashes where it is collected before its devices.
  const close = () => {
    device.destroy();
    gpu = undefined;
  };
  return { device, name: description || name, close };
}
