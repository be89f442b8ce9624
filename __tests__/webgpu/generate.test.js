/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// webnn-node/generate on a context on a GPUDevice: the tokens that onnxruntime-node gives.

const { rmSync } = require('node:fs');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { GenerationCache, generate } = require('../../lib/generate.js');
const { TOKENS, decoder, expected } = require('../generate/decoders.js');
const { encoded } = require('../transformers/encoded.js');
const { unpackModels } = require('../transformers/models.js');
const { newContext, onDevice } = require('./device.js');

const prompt = (length) => Array.from({ length }, (_, i) => (i * i * 5 + 3 * i + 5) % TOKENS);

async function ids(...given) {
  const found = [];
  for await (const { id } of generate(...given)) found.push(id);
  return found;
}

/** Drivers in software compile the kernels of several plans. */
const LIMIT = 300_000;

onDevice('a decoder, from one call to the next', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, decoder('genai'));
  const wanted = expected([{ kind: 'genai', prompt: prompt(3), count: 4 }])[0].map(({ id }) => id);
  const cache = new GenerationCache();
  const first = await ids(model, prompt(3), { maxNewTokens: 2, cache });
  const rest = await ids(model, [...prompt(3), ...first], { maxNewTokens: 2, cache });
  expect([...first, ...rest]).toEqual(wanted);
  cache.destroy();
  model.destroy();
}, LIMIT);

onDevice('encoder-decoders', async () => {
  const folder = unpackModels();
  try {
    const { context } = await newContext();
    const onCpu = await ml.createContext({ accelerated: false });
    for (const name of ['t5', 'whisper']) {
      const tokens = async (where) => {
        const given = await encoded(where, folder, name);
        const model = await loadOnnx(where, path.join(folder, name, 'onnx', 'decoder_model_merged.onnx'));
        const found = await ids(model, [2], { maxNewTokens: 3, inputs: given });
        model.destroy();
        return found;
      };
      expect(await tokens(context)).toEqual(await tokens(onCpu));
    }
    onCpu.destroy();
  } finally {
    rmSync(folder, { recursive: true });
  }
}, LIMIT);

onDevice('it ends with its context', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, decoder('genai'));
  for (const wait of [200, 0]) {
    const generating = ids(model, prompt(6), { maxNewTokens: 1000 });
    generating.catch(() => {});
    await setTimeout(wait);
    context.destroy();
    await expect(generating).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  }
}, LIMIT);
