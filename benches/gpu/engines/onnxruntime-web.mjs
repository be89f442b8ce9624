// onnxruntime-web on a GPUDevice of npm's `webgpu`. Its wasm has shared memory, which that package's writeBuffer() refuses: the bytes are copied
// for it, as a browser does.
import { readFileSync } from 'node:fs';
import { openDawn } from '../dawn.mjs';
import { on } from './onnxruntime.mjs';

export async function open() {
  const { gpu, device, name, isSoftware } = await openDawn();
  const queue = Object.getPrototypeOf(device.queue);
  const { writeBuffer } = queue;
  queue.writeBuffer = function (buffer, at, data, ...range) {
    const isShared = ArrayBuffer.isView(data) && !(data.buffer instanceof ArrayBuffer);
    return writeBuffer.call(this, buffer, at, isShared ? new data.constructor(data) : data, ...range);
  };
  const value = { gpu, hardwareConcurrency: 1, userAgent: 'node' };
  Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
  const ort = await import('onnxruntime-web/webgpu');
  ort.env.wasm.numThreads = 1;
  const executionProviders = [{ name: 'webgpu', device }];
  const create = (file, options) => ort.InferenceSession.create(readFileSync(file), { ...options, executionProviders });
  return { ...on(ort, create, true), name, isSoftware };
}
