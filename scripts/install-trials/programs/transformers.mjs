// transformers.js with the package in the place of onnxruntime-node: a vector of a text.
import { env, pipeline } from '@huggingface/transformers';
import { readFileSync } from 'node:fs';

env.allowRemoteModels = false;
env.localModelPath = process.env.TRIAL_MODELS;
const extract = await pipeline('feature-extraction', 'minilm', { device: 'cpu', dtype: 'fp32' });
const { dims } = await extract('the dog runs in the city', { pooling: 'mean', normalize: true });
if (process.platform === 'linux' && /libonnxruntime/.test(readFileSync('/proc/self/maps', 'utf8'))) throw new Error("onnxruntime's library is loaded");
console.log(`ran ${dims}`);
