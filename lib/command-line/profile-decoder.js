'use strict';

// The profile of a decoder: of generate(), with the step that sees the prompt and the steps of the tokens apart.

const { generator } = require('./numbers.js');

/**
 * Profiles calls of generate(), each with a prompt of its own, after one call that makes the plans.
 * @param {import('../onnx.d.ts').OnnxModel} model
 * @param {{prompt: number, tokens: number, repeat: number, seed: number}} settings
 * @returns {Promise<{profile: object, parts: [string, import('../onnx.d.ts').OnnxProfiledRun[]][]}>}
 */
async function profileDecoder(model, { prompt, tokens, repeat, seed }) {
  const { GenerationCache, generate } = require('../generate.js');
  const random = generator(seed);
  const known = model.outputs[0].shape?.at(-1);
  // Every model has these two.
  const ids = typeof known === 'number' ? known : 2;
  const call = async () => {
    // Nothing of a prompt is known from the call before.
    const cache = new GenerationCache();
    const list = Array.from({ length: prompt }, () => Math.floor(random() * ids));
    const generation = generate(model, list, { maxNewTokens: tokens, cache });
    while (!(await generation.next()).done);
    cache.destroy();
  };
  await call();
  const profile = model.profile();
  const first = [];
  for (let i = 0; i < repeat; i++) {
    first.push(profile.runs.length);
    await call();
  }
  profile.stop();
  const isFirst = (_, number) => first.includes(number);
  const parts = [['prompt', profile.runs.filter(isFirst)], ['token', profile.runs.filter((run, number) => !isFirst(run, number))]];
  return { profile, parts: parts.filter(([, runs]) => runs.length > 0) };
}

module.exports = { profileDecoder };
