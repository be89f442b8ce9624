'use strict';

// What generate() gives on a device beside what it gives on the CPU: from one call to the next, back to an earlier place, and for several
// sequences that begin alike.

const { loadOnnx } = require('../../lib/onnx.js');
const { GenerationCache, generate } = require('../../lib/generate.js');
const { TOKENS, decoder } = require('./decoders.js');

const prompt = (length, seed = 5) => Array.from({ length }, (_, i) => (i * i * seed + 3 * i + seed) % TOKENS);

async function all(...given) {
  const found = [];
  for await (const token of generate(...given)) found.push(token);
  return found;
}

/**
 * @param {string} kind of decoder
 * @param {MLContext[]} contexts the device's, and the CPU's
 */
async function expectAlike(kind, contexts) {
  const models = await Promise.all(contexts.map((context) => loadOnnx(context, decoder(kind))));
  const caches = models.map(() => new GenerationCache());
  const calls = [];
  /** The same on both, with what is remembered. */
  const both = async (ids, options) => {
    const [found, wanted] = await Promise.all(models.map((model, i) => all(model, ids, { ...options, cache: caches[i] })));
    const plain = (tokens) => tokens.map(({ id, sequence }) => [sequence, id]);
    calls.push([plain(found), plain(wanted), caches.map(({ known }) => known)]);
    found.forEach(({ logprob }, i) => expect(Math.abs(logprob - wanted[i].logprob)).toBeLessThan(1e-3));
    return wanted.map(({ id }) => id);
  };
  // More than a plan has rows for, and then more than there was room for: the least is 256.
  const first = await both(prompt(60), { maxNewTokens: 6 });
  const turn = [...prompt(60), ...first, 7, 8, 9];
  await both(turn, { maxNewTokens: 3 });
  // Back, and something else from there; then nothing in common.
  await both([...turn.slice(0, 45), 1, 2], { maxNewTokens: 3 });
  await both([9, ...prompt(6)], { maxNewTokens: 2 });
  // What the last call saw is the beginning of two, each of which is continued twice.
  await both([[9, ...prompt(6), 1], [9, ...prompt(3), 2]], { maxNewTokens: 3, sequences: 2, temperature: 0 });
  for (const [found, wanted, [here, there]] of calls) {
    expect(found).toEqual(wanted);
    expect(here).toEqual(there);
  }
  caches.forEach((cache) => cache.destroy());
  models.forEach((model) => model.destroy());
}

module.exports = { all, expectAlike, prompt };
