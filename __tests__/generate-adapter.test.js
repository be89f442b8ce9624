'use strict';

// Adapters of generate(): the tokens of a model that has them in its weights, whatever runs at once; and files that are damaged or hostile.

const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { Adapter, GenerationCache, generate, generationUsage, loadAdapter } = require('../lib/generate.js');
const { LAYERS, TOKENS, WIDTH, adapter, adapterFile, decoder } = require('./generate/adapters.js');

/** A file that the Python package flatbuffers wrote, by the schema of onnxruntime. */
const WRITTEN = [
  'DAAAAFRPUlQAAAAAYP///xAAAAAFAAAAAgAAAAEAAAADAAAAlAAAAEgAAAAEAAAAhP///xAAAAABAAAAEAAAACQAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAMA',
  'AAAAAAAAAAAAAAUAAABlbXB0eQAAAMT///8QAAAACgAAABgAAAAkAAAACgAAAAAAADwAQABCAEQAAAEAAAAFAAAAAAAAAAAAAAADAAAAeC5iAAwAFAAQAAwA',
  'CAAEAAwAAAAQAAAAAQAAAEAAAABQAAAAMAAAAAAAAAAAAIA/AAAAQAAAQEAAAIBAAACgQAAAwEAAAOBAAAAAQQAAEEEAACBBAAAwQQAAAAACAAAAAwAAAAAA',
  'AAAEAAAAAAAAAAoAAABsYXllcnMuMC5hAAA=',
].join('');

const COUNT = 12;
const RANKS = [4, 4, 7, 16];

let context;
let model;
const made = RANKS.map((rank, i) => adapter(rank, 40 + 9 * i));

beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  model = await loadOnnx(context, decoder(), { label: 'base', overridable: made[0].parameters.map(({ name }) => name) });
});
afterAll(() => context.destroy());

const prompt = (length, seed = 3) => Array.from({ length }, (_, i) => (i * i * seed + i + seed) % TOKENS);

async function idsOf(decoderModel, ids, options) {
  const found = [];
  for await (const { id } of generate(decoderModel, ids, { maxNewTokens: COUNT, ...options })) found.push(id);
  return found;
}

/** What models say that have adapters in their weights; the last one has none. */
async function expected(prompts) {
  const found = [];
  for (const [i, { merged }] of [...made, { merged: {} }].entries()) {
    const other = await loadOnnx(context, decoder(merged));
    found.push(await idsOf(other, prompts[i]));
    other.destroy();
  }
  return found;
}

describe('calls with adapters', () => {
  const prompts = [...RANKS, 0].map((_, i) => prompt(3 + 5 * i, i + 2));
  let adapters;
  let wanted;

  beforeAll(async () => {
    adapters = await Promise.all(made.map(({ parameters }) => loadAdapter(adapterFile(parameters))));
    wanted = await expected(prompts);
  });

  test('say what models with merged weights say', async () => {
    expect(new Set(wanted.map(String)).size).toBe(wanted.length);
    for (const [i, one] of [...adapters, undefined].entries()) expect(await idsOf(model, prompts[i], one && { adapter: one })).toEqual(wanted[i]);
    // The same as plain inputs.
    const inputs = Object.fromEntries(made[2].parameters.map(({ name, shape, data }) => [name, { data, shape }]));
    expect(await idsOf(model, prompts[2], { inputs })).toEqual(wanted[2]);
  });

  /** Calls until a run has the steps of several, once its graph is built. */
  async function runTogether(calls) {
    let share = 1;
    for (let round = 0; round < 100 && (round < 3 || share > 0.7); round++) {
      const before = await generationUsage(model);
      await calls();
      const { steps, runs } = await generationUsage(model);
      share = (runs - before.runs) / (steps - before.steps);
    }
    expect(share).toBeLessThanOrEqual(0.7);
  }

  test('run together, also with adapters of other ranks', async () => {
    await runTogether(async () => {
      const calls = adapters.map((one, i) => idsOf(model, prompts[i], { adapter: one }));
      expect(await Promise.all(calls)).toEqual(wanted.slice(0, -1));
    });
    await runTogether(async () => {
      const calls = [0, 1, 2, 3].map(() => idsOf(model, prompts.at(-1)));
      for (const ids of await Promise.all(calls)) expect(ids).toEqual(wanted.at(-1));
    });
  });

  test.each([[[0, undefined]], [[undefined, 3]], [[0, undefined, 2, undefined, undefined]]])('run together with calls without one: %j', async (kinds) => {
    await runTogether(async () => {
      const calls = kinds.map((kind) => idsOf(model, prompts.at(kind ?? -1), kind !== undefined && { adapter: adapters[kind] }));
      expect(await Promise.all(calls)).toEqual(kinds.map((kind) => wanted.at(kind ?? -1)));
    });
    // And with the others, which have other ranks.
    const all = [...adapters, undefined].map((one, i) => idsOf(model, prompts[i], one && { adapter: one }));
    expect(await Promise.all(all)).toEqual(wanted);
  });

  test('share nothing that another adapter has computed', async () => {
    const cache = new GenerationCache();
    const ids = prompt(20);
    const alone = [];
    for (const one of adapters) alone.push(await idsOf(model, ids, { adapter: one }));
    for (const [i, known] of [[0, 0], [1, 0], [0, 19], [1, 19]]) {
      expect(await idsOf(model, ids, { adapter: adapters[i], cache })).toEqual(alone[i]);
      expect(cache.known).toEqual([known]);
    }
    cache.destroy();
  });

  test('share the weights of the model', async () => {
    // Those of no other model, which would count them.
    const own = await loadOnnx(context, decoder(undefined, 12), { overridable: made[0].parameters.map(({ name }) => name) });
    const weights = [];
    // Without an adapter first.
    for (const [i, one] of [[-1], ...adapters.entries()]) {
      expect(await idsOf(own, prompts.at(i), one && { adapter: one })).toHaveLength(COUNT);
      const { packed, constants } = own.memoryUsage();
      weights.push({ packed, constants });
    }
    expect(weights[0].packed).toBeGreaterThanOrEqual(4 * LAYERS * 4 * WIDTH * WIDTH);
    for (const { packed, constants } of weights.slice(1)) {
      expect(packed).toBe(weights[0].packed);
      // Plans for other lengths have constants of their own, which are smaller than a weight.
      expect(constants - weights[0].constants).toBeLessThan(4 * WIDTH * WIDTH);
    }
    own.destroy();
  });

  test('an adapter that was destroyed is refused', async () => {
    const one = await loadAdapter(adapterFile(made[0].parameters));
    expect(one).toBeInstanceOf(Adapter);
    expect(one.parameters[0]).toEqual({ name: 'layers.0.query.lora_A.weight', dataType: 'float32', shape: [WIDTH, 4] });
    expect([one.adapterVersion, one.modelVersion]).toEqual([3, 7]);
    const tokens = generate(model, prompts[0], { adapter: one, maxNewTokens: COUNT });
    const first = (await tokens.next()).value.id;
    one.destroy();
    const found = [first];
    for await (const { id } of tokens) found.push(id);
    expect(found).toEqual(wanted[0]);
    await expect(idsOf(model, [1], { adapter: one })).rejects.toThrow('the Adapter was destroyed');
  });

  test('what does not fit the model is refused', async () => {
    const [first, ...others] = made[0].parameters;
    const message = async (parameters) => idsOf(model, [1], { adapter: await loadAdapter(adapterFile(parameters)) }).then(String, (error) => error.message);
    expect(await message([{ ...first, name: 'other' }, ...others])).toMatch(/adapter: found 'other', allowed inputs of the model: 'layers.0.query.lora_A.weight'/);
    expect(await message([{ ...first, shape: [4, WIDTH] }, ...others])).toMatch(/layers.0.query.lora_A.weight.*found/);
    await expect(idsOf(model, [1], { adapter: {} })).rejects.toThrow('options: adapter: found an object, allowed an Adapter');
    expect(() => new Adapter()).toThrow('Illegal constructor');
  });
});

describe('files of adapters', () => {
  const file = adapterFile(made[0].parameters.slice(0, 2));

  test('are read from a path, a URL or bytes', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-adapter-'));
    const name = path.join(folder, 'x.onnx_adapter');
    writeFileSync(name, file);
    const all = await Promise.all([name, pathToFileURL(name), file, file.buffer].map(loadAdapter));
    for (const one of all) expect(one.parameters).toEqual(all[0].parameters);
    rmSync(folder, { recursive: true });
    await expect(loadAdapter(5)).rejects.toThrow('loadAdapter: source: found 5, allowed a path');
    const gone = file.slice().buffer;
    structuredClone(gone, { transfer: [gone] });
    for (const none of [gone, new Uint8Array(0)]) await expect(loadAdapter(none)).rejects.toThrow("loadAdapter: found a file without the identifier 'TORT'");
  });

  test('are read as another writer has them', async () => {
    const one = await loadAdapter(Buffer.from(WRITTEN, 'base64'));
    expect(one.parameters).toEqual([
      { name: 'layers.0.a', dataType: 'float32', shape: [3, 4] },
      { name: 'x.b', dataType: 'float16', shape: [5] },
      { name: 'empty', dataType: 'float32', shape: [0, 3] },
    ]);
    expect([one.adapterVersion, one.modelVersion]).toEqual([2, 5]);
  });

  test('that are damaged are refused, or are others', async () => {
    const outcome = async (bytes) => {
      try {
        return (await loadAdapter(bytes)).parameters;
      } catch (error) {
        expect([error.name, error.message.split(':')[0]]).toEqual(['TypeError', 'loadAdapter']);
        return undefined;
      }
    };
    let refused = 0;
    for (let length = 0; length < file.length; length += length < 400 ? 1 : 97) refused += Number((await outcome(file.slice(0, length))) === undefined);
    expect(refused).toBeGreaterThan(400);
    let state = 77;
    const below = (count) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % count;
    // Where the description is, and everywhere.
    for (let i = 0; i < 4000; i++) {
      const bytes = file.slice();
      for (let flips = 0; flips <= i % 3; flips++) bytes[i % 2 === 0 ? below(200) : below(bytes.length)] ^= 1 << below(8);
      const parameters = await outcome(bytes);
      const total = parameters?.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0) ?? 0;
      expect(total).toBeLessThanOrEqual(bytes.length);
    }
  });

  test('say what is wrong', async () => {
    const message = (bytes) => loadAdapter(bytes).then(String, (error) => error.message);
    const [one] = made[0].parameters;
    expect(await message(new Uint8Array(3))).toMatch("found a file without the identifier 'TORT'");
    expect(await message(adapterFile([one], 2))).toMatch('found the format version 2, allowed 1');
    expect(await message(adapterFile([one, one]))).toMatch(/found 'layers.0.query.lora_A.weight' twice/);
    expect(await message(adapterFile([{ ...one, name: '' }]))).toMatch('without a name');
    expect(await message(adapterFile([{ ...one, type: 8 }]))).toMatch('found the data type 8');
    expect(await message(adapterFile([{ ...one, shape: [WIDTH, 5] }]))).toMatch(`found ${WIDTH * 16} bytes, allowed ${WIDTH * 20}`);
    expect(await message(adapterFile([{ ...one, shape: [-1, -128] }]))).toMatch('found a dimension of -1');
    expect(await message(adapterFile([{ ...one, shape: new Array(17).fill(1) }]))).toMatch('found 17 dimensions');
  });
});
