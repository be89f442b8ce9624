'use strict';

// cacheType 'int8': generate() with keys and values that are kept in 8 bits.

const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { ml } = require('webnn-node');
const { GenerationCache, generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { TOKENS, decoder } = require('./generate/decoders.js');
const { seededNumbers } = require('./seeded-numbers.js');

// Attention in basic operators and contributed ones; a prompt that is one step; states beside caches; a cache of a fixed size in the file.
const KINDS = ['concat', 'genai', 'GroupQueryAttention', 'MultiHeadAttention', 'prompts alone', 'genai with states', 'TensorScatter'];

/** The tokens of a prompt of that length: others for another number. */
const prompt = (length, number = 1) => Array.from({ length }, (_, i) => (i * i + number * (i + 3)) % TOKENS);

async function all(model, ids, options) {
  const tokens = [];
  for await (const token of generate(model, ids, { cacheType: 'int8', ...options })) tokens.push(token.id);
  return tokens;
}

/** The logits of each step. */
async function logitsOf(model, ids, options) {
  const found = [];
  const logits = (values) => void found.push([...values]);
  for await (const token of generate(model, ids, { ...options, bias: { 1: 0 }, logits })) void token;
  return found;
}

let context;
beforeEach(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterEach(() => context.destroy());

/** The tokens after prompts, each computed by a model that knows nothing. */
async function alone(kind, prompts, maxNewTokens) {
  const found = [];
  for (const ids of prompts) {
    const fresh = await loadOnnx(context, decoder(kind));
    found.push(await all(fresh, ids, { maxNewTokens }));
    fresh.destroy();
  }
  return found;
}

describe.each(KINDS)('a decoder with %s', (kind) => {
  test('is close to what it is with its own caches', async () => {
    const [model, other] = [await loadOnnx(context, decoder(kind)), await loadOnnx(context, decoder(kind))];
    const options = { maxNewTokens: 6, stop: [] };
    const found = await logitsOf(model, prompt(30), { ...options, cacheType: 'int8' });
    const wanted = await logitsOf(other, prompt(30), options);
    // The first step has the same tokens before it.
    const spread = Math.max(...wanted[0]) - Math.min(...wanted[0]);
    const errors = wanted[0].map((x, i) => Math.abs(x - found[0][i]));
    expect(Math.max(...errors)).toBeLessThan(0.03 * spread);
    // It is something else than the model's type.
    expect(Math.max(...errors)).toBeGreaterThan(0);
  });

  test('gives the same tokens alone, at once, and from what is known', async () => {
    const system = prompt(70);
    const prompts = Array.from({ length: 5 }, (_, i) => [...system, ...prompt(4 + i, i)]);
    const wanted = await alone(kind, prompts, 8);
    const model = await loadOnnx(context, decoder(kind));
    const cache = new GenerationCache({ cacheType: 'int8' });
    const found = await Promise.all(prompts.map((ids) => all(model, ids, { maxNewTokens: 8, cache })));
    expect(found).toEqual(wanted);
    expect(await all(model, prompts[2], { maxNewTokens: 8, cache })).toEqual(wanted[2]);
    // Calls with the model's type go on beside it.
    const other = await loadOnnx(context, decoder(kind));
    expect(await all(model, prompts[1], { maxNewTokens: 8, cacheType: 'model' })).toEqual(await all(other, prompts[1], { maxNewTokens: 8, cacheType: 'model' }));
  }, 120_000);
});

// With float32 weights, a product of several rows sums in another order than one of a single row. A rounding may take a number to the next of 8 bits.
test.each(['GroupQueryAttention', 'genai'])('many sequences differ from the same alone by little more than rounding: %s', async (kind) => {
  const CLOSE = 0.004;
  const model = await loadOnnx(context, decoder(kind));
  const numbers = seededNumbers(24 * 30, TOKENS, 11).map((x) => Math.floor(x + TOKENS) % TOKENS);
  const prompts = Array.from({ length: 24 }, (_, i) => numbers.slice(30 * i, 30 * i + 1 + ((7 * i) % 29)));
  const options = { cacheType: 'int8', maxNewTokens: 30, topLogprobs: 2 };
  const tokensOf = async (ids) => {
    const found = [];
    for await (const token of generate(model, ids, { ...options, cache: new GenerationCache({ maxBytes: 0, cacheType: 'int8' }) })) found.push(token);
    return found;
  };
  const together = [];
  for (let first = 0; first < prompts.length; first += 8) together.push(...(await Promise.all(prompts.slice(first, first + 8).map(tokensOf))));
  for (const [i, ids] of prompts.entries()) {
    const own = await tokensOf(ids);
    expect(together[i]).toHaveLength(own.length);
    const parting = own.findIndex(({ id }, place) => together[i][place].id !== id);
    const same = own.slice(0, parting < 0 ? own.length : parting);
    for (const [place, { logprob }] of same.entries()) expect(Math.abs(logprob - together[i][place].logprob)).toBeLessThan(CLOSE);
    // They part only where two tokens are as probable.
    const [first, second] = own[parting]?.top ?? [{ logprob: 0 }, { logprob: 0 }];
    expect(first.logprob - second.logprob).toBeLessThan(2 * CLOSE);
  }
});

test('speculation gives the same tokens', async () => {
  const ids = [...prompt(20), ...prompt(20), ...prompt(20)];
  const [wanted] = await alone('GroupQueryAttention', [ids], 20);
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  expect(await all(model, ids, { maxNewTokens: 20, speculate: { prompt: true, guesses: 3 } })).toEqual(wanted);
});

test('it takes less memory', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const bytes = [];
  for (const cacheType of ['model', 'int8']) {
    const cache = new GenerationCache({ cacheType });
    await all(model, prompt(240), { cacheType, cache, maxNewTokens: 2 });
    bytes.push(cache.memoryUsage().bytes);
    cache.destroy();
  }
  // Heads have 16 numbers: 20 bytes for 64.
  expect(bytes[1] / bytes[0]).toBeLessThan(0.4);
});

test('files say which type they have', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-caches-'));
  try {
    const model = await loadOnnx(context, decoder('concat'));
    const [wanted] = await alone('concat', [prompt(60)], 9);
    for (const cacheType of ['int8', 'model']) {
      const cache = new GenerationCache({ cacheType });
      await all(model, prompt(60), { maxNewTokens: 4, cache, cacheType });
      await cache.save(path.join(folder, cacheType));
      cache.destroy();
    }
    const fresh = await loadOnnx(context, decoder('concat'));
    const loaded = await GenerationCache.load(fresh, path.join(folder, 'int8'), { cacheType: 'int8' });
    expect(await all(fresh, prompt(60), { maxNewTokens: 9, cache: loaded })).toEqual(wanted);
    expect(loaded.known).toEqual([59]);
    await expect(GenerationCache.load(fresh, path.join(folder, 'int8'))).rejects.toThrow("found a file with the cacheType 'int8', allowed 'model'");
    await expect(GenerationCache.load(fresh, path.join(folder, 'model'), { cacheType: 'int8' })).rejects.toThrow("found a file with the cacheType 'model', allowed 'int8'");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('what is wrong is refused by its name', async () => {
  const model = await loadOnnx(context, decoder('concat'));
  expect(() => new GenerationCache({ cacheType: 'int4' })).toThrow(new TypeError("GenerationCache: options: cacheType: found 'int4', allowed 'model', 'int8'"));
  expect(() => generate(model, [1], { cacheType: 8 })).toThrow(/options: cacheType: found 8, allowed 'model', 'int8'/);
  const cache = new GenerationCache();
  expect(() => generate(model, [1], { cacheType: 'int8', cache })).toThrow(/options: cacheType: found 'int8', allowed 'model', as the GenerationCache has it/);
  expect(await all(model, [1, 2], { cacheType: undefined, cache, maxNewTokens: 1 })).toHaveLength(1);
});
