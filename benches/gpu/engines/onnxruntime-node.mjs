// The `webgpu` provider in onnxruntime-node's npm binary. It has a Dawn of its own, which says nothing of its adapter, and takes hardware before
// software as ours does. Outputs come to the host: version 1.30 ends the process when one is to stay on the GPU.
import { createRequire } from 'node:module';
import { openDawn } from '../dawn.mjs';
import { on } from './onnxruntime.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');

export async function open() {
  const { name, isSoftware } = await openDawn();
  const create = (file, options) => ort.InferenceSession.create(file, { ...options, executionProviders: ['webgpu'] });
  return { ...on(ort, create, false), name: `as Dawn chooses: ${name}`, isSoftware };
}
