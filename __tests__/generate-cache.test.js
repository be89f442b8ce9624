'use strict';

// GenerationCache: what calls of generate() begin with, and what they keep for each other.

const { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
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

/** The tokens after prompts, each computed by a model that knows nothing. */
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
  // All but the first have something of it from others, although none of it was known when they began.
  expect(hits).toBeGreaterThanOrEqual(5);
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

test('the figures of a model are those of all its calls', async () => {
  const fresh = await loadOnnx(context, decoder('concat'));
  const figures = async () => {
    const { steps, runs, cache } = await generationUsage(fresh);
    return [steps, runs, cache.hits, cache.misses, cache.reusedTokens];
  };
  const long = prompt(150);
  await all(fresh, long, { maxNewTokens: 5 });
  const first = await figures();
  expect(first).toEqual([first[0], first[0], 0, 1, 0]);
  // Each type has a cache of its own.
  await all(fresh, long, { maxNewTokens: 5, cacheType: 'int8' });
  expect(await figures()).toEqual([2 * first[0], 2 * first[0], 0, 2, 0]);
  expect((await generationUsage(fresh)).cache.sequences).toBe(2);
  for (const cacheType of ['int8', 'model']) await all(fresh, long, { maxNewTokens: 5, cacheType });
  const [steps, runs, ...others] = await figures();
  expect(others).toEqual([2, 2, 298]);
  expect([steps, runs]).toEqual([2 * first[0] + 10, 2 * first[0] + 10]);
  fresh.destroy();
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
    [{ maxbytes: 1 }, "GenerationCache: options: found 'maxbytes', allowed cacheType, maxBytes, minTokens"],
    [{ minTokens: 0 }, 'GenerationCache: options: minTokens: found 0, allowed a whole number from 1'],
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

describe('files', () => {
  let folder;
  let file;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-caches-'));
    file = path.join(folder, 'cache');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** A cache with two talks that begin alike, in a file. */
  async function saved() {
    const cache = new GenerationCache();
    const talks = [[...prompt(60), ...prompt(9, 2)], [...prompt(60), ...prompt(20, 3)]];
    for (const ids of talks) await all(model, ids, { maxNewTokens: 4, cache });
    await cache.save(file);
    const { sequences } = cache.memoryUsage();
    cache.destroy();
    return { talks, sequences };
  }

  test('what was saved is known to another model of the same content', async () => {
    const { talks } = await saved();
    expect(readdirSync(folder)).toEqual(['cache']);
    const other = await loadOnnx(context, decoder('concat'));
    const cache = await GenerationCache.load(other, file);
    // The beginning that both have is a part of each.
    expect(cache.memoryUsage()).toMatchObject({ sequences: 2, maxBytes: 2 ** 30, hits: 0 });
    for (const ids of talks) {
      const [wanted] = await alone([ids], 12);
      expect(await all(other, ids, { maxNewTokens: 12, cache })).toEqual(wanted);
      expect(cache.known).toEqual([ids.length - 1]);
    }
    // Again, over what is there.
    await cache.save(file);
    expect((await GenerationCache.load(other, file, { maxBytes: 1e8 })).memoryUsage()).toMatchObject({ maxBytes: 1e8, sequences: 2 });
    other.destroy();
  });

  test('a file of another model, or of other options, is refused', async () => {
    await saved();
    for (const other of [await loadOnnx(context, decoder('unmasked')), await loadOnnx(context, decoder('concat'), { freeDimensions: { batch_size: 1 } })]) {
      await expect(GenerationCache.load(other, file)).rejects.toThrow(/found a file of another model, other options or another version/);
      other.destroy();
    }
    await expect(GenerationCache.load(model, file, { maxBytes: 0 })).resolves.toBeInstanceOf(GenerationCache);
  });

  test('a file that is damaged or cut short is refused, wherever it is', async () => {
    await saved();
    const whole = readFileSync(file);
    const refused = async (bytes) => {
      writeFileSync(file, bytes);
      await expect(GenerationCache.load(model, file)).rejects.toThrow(/damaged/);
    };
    const places = [...Array.from({ length: 200 }, (_, i) => i), ...Array.from({ length: 40 }, (_, i) => Math.floor((whole.length * i) / 40)), whole.length - 1];
    for (const place of places) {
      await refused(whole.subarray(0, place));
      // Zeros after the header's hash count, too.
      const changed = Buffer.from(whole);
      changed[place] ^= 1 << (place % 8);
      await refused(changed);
    }
    await refused(Buffer.concat([whole, Buffer.alloc(1)]));
    await refused(Buffer.alloc(1 << 16, 0xff));
    writeFileSync(file, whole);
    (await GenerationCache.load(model, file)).destroy();
  });

  test('what cannot be saved or loaded says why', async () => {
    const cache = new GenerationCache();
    await expect(cache.save(file)).rejects.toThrow('no call has used the GenerationCache yet');
    await all(model, prompt(3), { maxNewTokens: 1, cache });
    await expect(cache.save(path.join(folder, 'none', 'cache'))).rejects.toThrow(/cannot be written/);
    await expect(GenerationCache.load(model, path.join(folder, 'none'))).rejects.toThrow(/cannot be read/);
    await expect(GenerationCache.load(model, folder)).rejects.toThrow(/is not a regular file but a folder/);
    for (const wrong of [undefined, '', 3, 'a\0b', {}]) {
      await expect(cache.save(wrong)).rejects.toThrow(/save: file: found .*, allowed the path of a file/);
      await expect(GenerationCache.load(model, wrong)).rejects.toThrow(/load: file: found .*, allowed the path of a file/);
    }
    await expect(GenerationCache.load({}, file)).rejects.toThrow(/load: model: found/);
    const saving = cache.save(file);
    cache.destroy();
    await expect(saving).rejects.toThrow('save: the GenerationCache was destroyed');
    await expect(cache.save(file)).rejects.toThrow('the GenerationCache was destroyed');
    const states = await loadOnnx(context, decoder('genai with states'));
    const other = new GenerationCache();
    await all(states, prompt(3), { maxNewTokens: 1, cache: other });
    await expect(other.save(file)).rejects.toThrow(/found a model with states/);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('a cache that is saved while calls use it has what they had seen', async () => {
    const cache = new GenerationCache();
    const [wanted] = await alone([prompt(70)], 30);
    const found = [];
    let saving;
    for await (const { id } of generate(model, prompt(70), { maxNewTokens: 30, cache })) {
      found.push(id);
      if (found.length === 10) saving = cache.save(file);
    }
    await saving;
    expect(found).toEqual(wanted);
    const loaded = await GenerationCache.load(model, file);
    const tokens = generate(model, prompt(70), { maxNewTokens: 30, cache: loaded });
    expect(tokens.known).toEqual([]);
    const again = [];
    for await (const { id } of tokens) again.push(id);
    expect(again).toEqual(wanted);
    expect(tokens.known).toEqual([69]);
  });
});

test('beginnings that are too short are not reused', async () => {
  const cache = new GenerationCache({ minTokens: 16 });
  for (const length of [10, 16, 30]) await all(model, prompt(length), { maxNewTokens: 1, cache });
  expect(cache.known).toEqual([15 + 1]);
  expect(cache.memoryUsage()).toMatchObject({ sequences: 1, hits: 1, misses: 2 });
});

test('each call tells how much it knew', async () => {
  const cache = new GenerationCache();
  await all(model, prompt(30), { maxNewTokens: 1, cache });
  const calls = [prompt(30), [...prompt(30), 1, 2], prompt(8), prompt(5, 7)].map((ids) => generate(model, ids, { maxNewTokens: 3, cache }));
  await Promise.all(calls.map(async (call) => { for await (const token of call) void token; }));
  expect(calls.map(({ known }) => known)).toEqual([[29], [30], [7], [0]]);
});
