'use strict';

// GenerationCache: what calls of generate() begin with, and what they keep for each other.

const { ml } = require('webnn-node');
const { GenerationCache, generate, generationUsage } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { TOKENS, decoder } = require('./generate/decoders.js');

/** The tokens of a prompt of that length: others for another number. */
const prompt = (length, number = 1) => Array.from({ length }, (_, i) => (i * i + number * (i + 3)) % TOKENS);

async function all(model, ids, options) {
  const tokens = [];
  for await (const token of generate(model, ids, options)) tokens.push(token.id);
  return tokens;
}

let context;
let model;
beforeEach(async () => {
  context = await ml.createContext({ accelerated: false });
  model = await loadOnnx(context, decoder('concat'));
});
afterEach(() => context.destroy());

/** The tokens behind prompts, each computed by a model that knows nothing. */
async function alone(prompts, maxNewTokens) {
  const found = [];
  for (const ids of prompts) {
    const fresh = await loadOnnx(context, decoder('concat'));
    found.push(await all(fresh, ids, { maxNewTokens }));
    fresh.destroy();
  }
  return found;
}

test('calls at once compute what they begin with once', async () => {
  const system = prompt(150);
  const prompts = Array.from({ length: 6 }, (_, i) => [...system, ...prompt(7 + i, i)]);
  const wanted = await alone(prompts, 8);
  const cache = new GenerationCache();
  const found = await Promise.all(prompts.map((ids) => all(model, ids, { maxNewTokens: 8, cache })));
  expect(found).toEqual(wanted);
  const { hits, misses, sequences, reusedTokens, bytes, maxBytes } = cache.memoryUsage();
  expect([hits + misses, maxBytes]).toEqual([6, 2 ** 30]);
  // And where they part, if the system can share it.
  expect([6, 7]).toContain(sequences);
  // All but one had nearly all of it from others.
  expect(reusedTokens).toBeGreaterThanOrEqual(5 * (system.length - 1));
  expect(bytes).toBeGreaterThan(0);
  // Afterwards everything is known but the last token.
  expect(await all(model, prompts[3], { maxNewTokens: 8, cache })).toEqual(wanted[3]);
  expect(cache.known).toEqual([prompts[3].length - 1]);
  cache.destroy();
});

test('without a cache calls share what is long', async () => {
  const [long, short] = [prompt(150), prompt(40)];
  const [wanted, other] = await alone([[...long, 3], short], 6);
  for (const ids of [[...long, 5], short, short]) await all(model, ids, { maxNewTokens: 6 });
  expect(await generationUsage(model)).toMatchObject({ cache: { hits: 0, misses: 3, reusedTokens: 0, sequences: 1 } });
  expect(await all(model, [...long, 3], { maxNewTokens: 6 })).toEqual(wanted);
  expect(await all(model, short, { maxNewTokens: 6 })).toEqual(other);
  expect(await generationUsage(model)).toMatchObject({ cache: { hits: 1, misses: 4, reusedTokens: 150 } });
});

test('a talk goes on from every turn, and branches off', async () => {
  const cache = new GenerationCache();
  const talk = [...prompt(100)];
  const turns = [];
  for (let turn = 0; turn < 3; turn++) {
    const said = await all(model, talk, { maxNewTokens: 5, cache });
    turns.push(talk.length - 1);
    talk.push(...said, 2, 3);
  }
  expect(cache.known).toEqual([turns[1] + 5]);
  for (const [i, length] of turns.entries()) {
    const branch = [...talk.slice(0, length), 9, 1];
    expect(await all(model, branch, { maxNewTokens: 5, cache })).toEqual((await alone([branch], 5))[0]);
    expect(cache.known[0]).toBeGreaterThanOrEqual(length);
    expect(cache.memoryUsage().sequences).toBeGreaterThanOrEqual(2 + i);
  }
});

test('what was not used for longest goes, what is pinned stays', async () => {
  const one = new GenerationCache();
  await all(model, prompt(20), { maxNewTokens: 1, cache: one });
  const { bytes } = one.memoryUsage();
  one.destroy();

  const cache = new GenerationCache({ maxBytes: 3 * bytes });
  const pinned = prompt(20, 2);
  cache.pin(pinned);
  for (let number = 2; number < 9; number++) {
    await all(model, prompt(20, number), { maxNewTokens: 1, cache });
    expect(cache.memoryUsage()).toMatchObject({ maxBytes: 3 * bytes, sequences: Math.min(number - 1, 3) });
    expect(cache.memoryUsage().bytes).toBeLessThanOrEqual(3 * bytes);
  }
  const known = async (number) => {
    await all(model, prompt(20, number), { maxNewTokens: 0, cache });
    await all(model, [...prompt(20, number), 1], { maxNewTokens: 1, cache });
    return cache.known[0];
  };
  expect(await known(2)).toBe(20);
  expect(await known(3)).toBeLessThan(20);
  expect(await known(8)).toBe(20);
  expect([cache.unpin([1]), cache.unpin(pinned), cache.unpin(pinned)]).toEqual([false, true, false]);
  for (let number = 10; number < 13; number++) await all(model, prompt(20, number), { maxNewTokens: 1, cache });
  expect(await known(2)).toBeLessThan(20);
});

test('a cache that may hold nothing holds nothing', async () => {
  const cache = new GenerationCache({ maxBytes: 0 });
  const [wanted] = await alone([prompt(20)], 3);
  for (let i = 0; i < 2; i++) expect(await all(model, prompt(20), { maxNewTokens: 3, cache })).toEqual(wanted);
  expect(cache.memoryUsage()).toEqual({ maxBytes: 0, bytes: 0, sequences: 0, hits: 0, misses: 2, reusedTokens: 0 });
});

test('what is kept gives way to what a limit of memory would refuse', async () => {
  const free = model.memoryUsage();
  await all(model, prompt(200), { maxNewTokens: 1 });
  const { peak } = model.memoryUsage();
  const limited = await loadOnnx(context, decoder('concat'), { memoryLimit: peak + Math.floor((peak - free.packed) / 2) });
  const wanted = await alone([200, 201, 202, 203].map((length, number) => prompt(length, number)), 3);
  for (const [number, tokens] of wanted.entries()) expect(await all(limited, prompt(200 + number, number), { maxNewTokens: 3 })).toEqual(tokens);
  expect((await generationUsage(limited)).cache.sequences).toBeGreaterThan(0);
});

test('a cache may be destroyed while calls use it', async () => {
  const cache = new GenerationCache();
  const [wanted] = await alone([prompt(90)], 6);
  const tokens = generate(model, prompt(90), { maxNewTokens: 6, cache });
  const found = [(await tokens.next()).value.id];
  cache.destroy();
  cache.destroy();
  for await (const { id } of tokens) found.push(id);
  expect(found).toEqual(wanted);
  expect(cache.memoryUsage()).toMatchObject({ bytes: 0, sequences: 0 });
  expect(() => cache.pin([1])).toThrow('the GenerationCache was destroyed');
});

test('wrong arguments are refused by their names', () => {
  for (const [options, text] of [
    [null, 'GenerationCache: options: found null, allowed an object'],
    [{ maxbytes: 1 }, "GenerationCache: options: found 'maxbytes', allowed maxBytes"],
    [{ maxBytes: -1 }, 'GenerationCache: options: maxBytes: found -1, allowed a number from 0'],
    [{ maxBytes: '1' }, "GenerationCache: options: maxBytes: found '1', allowed a number from 0"],
    [{ maxBytes: NaN }, 'GenerationCache: options: maxBytes: found NaN, allowed a number from 0'],
  ]) {
    expect(() => new GenerationCache(options)).toThrow(new TypeError(text));
  }
  const cache = new GenerationCache();
  for (const ids of [undefined, [], [-1], ['x'], 3]) {
    expect(() => cache.pin(ids)).toThrow(TypeError);
    expect(() => cache.unpin(ids)).toThrow('allowed an array of tokens');
  }
});
