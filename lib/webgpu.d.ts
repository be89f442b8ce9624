/** What WebNN has to do with WebGPU beside the methods of `MLContext`: an extension of this package, `webnn-node/webgpu`. */

import type { MLGPUBuffer, MLGPUDevice, MLTensor } from '../index.js';

/** What of a GPUAdapter is looked at. */
export interface AdapterLike {
  readonly limits: object;
  readonly features: { has(name: string): boolean };
}

/**
 * What `adapter.requestDevice({ requiredLimits })` is to be asked for so that tensors and graphs of `ml.createContext(device)` may be as
 * large as the adapter allows.
 */
export function requiredLimits(adapter: AdapterLike): Record<string, number>;

/** Likewise the `requiredFeatures` that make graphs faster, of those that the adapter has. */
export function requiredFeatures(adapter: AdapterLike): ('shader-f16' | 'subgroups')[];

/**
 * A tensor that was made with `importableToWebGPU` as a buffer of any device: its own memory on the device of its context, else a copy. What
 * depends on the tensor waits until the buffer's `destroy()` or `release()` gives it back, with what WebGPU wrote.
 *
 * Rejects with `InvalidStateError` for a tensor that is exported already, `OperationError` for one that is errored.
 */
export function importExternalBuffer(device: MLGPUDevice, descriptor: { source: MLTensor; label?: string }): Promise<MLGPUBuffer>;

declare const webgpu: {
  importExternalBuffer: typeof importExternalBuffer;
  requiredFeatures: typeof requiredFeatures;
  requiredLimits: typeof requiredLimits;
};
export default webgpu;
