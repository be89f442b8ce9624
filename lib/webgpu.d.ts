/** Functions for WebGPU devices, in addition to the methods of `MLContext`: an extension of this package, `webnn-node/webgpu`. */

import type { MLGPUBuffer, MLGPUDevice, MLTensor } from '../index.js';

/** The members of a GPUAdapter that are used. */
export interface AdapterLike {
  readonly limits: object;
  readonly features: { has(name: string): boolean };
}

/**
 * Returns the limits to pass to `adapter.requestDevice({ requiredLimits })`, so tensors and graphs of `ml.createContext(device)` may be as
 * large as the adapter allows.
 */
export function requiredLimits(adapter: AdapterLike): Record<string, number>;

/** Returns the `requiredFeatures` that make graphs faster, if the adapter has them. */
export function requiredFeatures(adapter: AdapterLike): ('shader-f16' | 'subgroups')[];

/**
 * Exports a tensor created with `importableToWebGPU` as a buffer of any device: its own memory on the device of its context, otherwise a copy.
 * Work that depends on the tensor waits until the buffer's `destroy()` or `release()` gives it back, with the bytes that WebGPU wrote.
 *
 * Rejects with `InvalidStateError` for a tensor that is already exported, and with `OperationError` for an errored tensor.
 */
export function importExternalBuffer(device: MLGPUDevice, descriptor: { source: MLTensor; label?: string }): Promise<MLGPUBuffer>;

declare const webgpu: {
  importExternalBuffer: typeof importExternalBuffer;
  requiredFeatures: typeof requiredFeatures;
  requiredLimits: typeof requiredLimits;
};
export default webgpu;
