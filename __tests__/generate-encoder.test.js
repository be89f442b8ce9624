'use strict';

// Encoder-decoders by webnn-node/generate: the tokens that the decoder without caches gives when it sees the whole sequence each time, whatever
// runs at once.

const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { cancelAtAllMoments } = require('./generate/moments.js');
const { FEATURES, KINDS, TOKENS, encoder, merged, withPast, withoutPast } = require('./generate/encoder-decoders.js');

const COUNT = 12;
/** Lengths of what encoders read. */
const LENGTHS = [5, 12, 5, 9, 40, 12];

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterAll(() => context.destroy());

const long = (list) => ({ data: BigInt64Array.from(list, BigInt), shape: [1, list.length] });
const prompt = (length, seed = 3) => Array.from({ length }, (_, i) => (i * i * seed + i + seed) % TOKENS);

/** What an encoder reads, of some length. */
function source(kind, length, seed) {
  if (kind !== 'whisper') return { input_ids: long(prompt(length, seed + 5)), attention_mask: long(new Array(length).fill(1)) };
  return { input_features: { data: Float32Array.from({ length: FEATURES * length }, (_, i) => Math.sin(i * (seed + 1))), shape: [1, FEATURES, length] } };
}

async function idsOf(model, ids, options) {
  const found = [];
  for await (const { id } of generate(model, ids, { maxNewTokens: COUNT, ...options })) found.push(id);
  return found;
}

async function bySequence(model, prompts, options) {
  const found = prompts.map(() => []);
  for await (const { id, sequence } of generate(model, prompts, { maxNewTokens: COUNT, ...options })) found[sequence].push(id);
  return found;
}

describe.each(KINDS)('%s', (kind) => {
  let models;
  const sources = LENGTHS.map((length, seed) => source(kind, length, seed));
  let givens;

  beforeAll(async () => {
    const all = { encoder: encoder(kind), merged: merged(kind), first: withoutPast(kind), later: withPast(kind), open: withPast(kind, 'decoder_sequence_length') };
    models = Object.fromEntries(await Promise.all(Object.entries(all).map(async ([name, bytes]) => [name, await loadOnnx(context, bytes, { label: name })])));
    givens = [];
    for (const inputs of sources) {
      const states = (await models.encoder.run(inputs)).last_hidden_state;
      givens.push({ encoder_hidden_states: states, ...(inputs.attention_mask && { encoder_attention_mask: inputs.attention_mask }) });
    }
  });
  afterAll(() => Object.values(models).forEach((model) => model.destroy()));

  /** The whole sequence each time. */
  async function oracle(given, ids, count = COUNT) {
    const found = [];
    while (found.length < count) {
      const { logits } = await models.first.run({ ...given, input_ids: long([...ids, ...found]) });
      const last = logits.data.slice(-TOKENS);
      found.push(last.indexOf(Math.max(...last)));
    }
    return found;
  }

  // A single token; those that Whisper is made to begin with; several powers of two; more than a plan has rows for.
  test.each([1, 4, 15, 70])('continues a prompt of %i tokens as without caches', async (length) => {
    const wanted = await oracle(givens[1], prompt(length));
    expect(await idsOf(models.merged, prompt(length), { inputs: givens[1] })).toEqual(wanted);
    const whole = { encoder: { model: models.encoder, inputs: sources[1] } };
    expect(await idsOf(models.merged, prompt(length), whole)).toEqual(wanted);
    for (const later of [models.later, models.open]) {
      expect(await idsOf(later, prompt(length), { ...whole, withoutPast: models.first })).toEqual(wanted);
      expect(await idsOf(later, prompt(length), { inputs: givens[1], withoutPast: models.first })).toEqual(wanted);
    }
  });

  test.each(['merged', 'later'])('is cancelled at all moments: %s', async (name) => {
    const options = { encoder: { model: models.encoder, inputs: sources[4] }, cache: new GenerationCache({ maxBytes: 0 }), ...(name === 'later' && { withoutPast: models.first }) };
    const wanted = await oracle(givens[4], prompt(6));
    const { outcomes, cancelled } = await cancelAtAllMoments(models[name], prompt(6), { ...options, maxNewTokens: COUNT });
    expect(outcomes.filter((outcome) => outcome !== 'its reason')).toEqual([wanted, wanted]);
    // Before it begins, and after each token but the last.
    expect(cancelled).toBeGreaterThanOrEqual(COUNT);
    expect(await idsOf(models[name], prompt(6), options)).toEqual(wanted);
  });

  test('calls at once, each with its own encoder, run together', async () => {
    const prompts = LENGTHS.map((_, i) => prompt(1 + (i % 3) * 2, i + 2));
    const wanted = [];
    for (const [i, given] of givens.entries()) wanted.push(await oracle(given, prompts[i]));
    for (const [model, more] of [[models.merged, {}], [models.later, { withoutPast: models.first }]]) {
      let share = 1;
      for (let round = 0; round < 100 && (round < 3 || share > 0.7); round++) {
        const before = await generationUsage(model);
        expect(await Promise.all(givens.map((inputs, i) => idsOf(model, prompts[i], { inputs, ...more })))).toEqual(wanted);
        const { steps, runs } = await generationUsage(model);
        share = (runs - before.runs) / (steps - before.steps);
      }
      expect(share).toBeLessThanOrEqual(0.7);
      expect((await generationUsage(model)).reason).toBeUndefined();
    }
  });

  test('several prompts, and several sequences of each, with rows of their own', async () => {
    const prompts = [prompt(3), prompt(1, 7)];
    const joined = {};
    for (const name of Object.keys(givens[0])) {
      // Of the same length.
      const [one, other] = [givens[0][name], givens[2][name]];
      const data = new one.data.constructor(2 * one.data.length);
      data.set(one.data);
      data.set(other.data, one.data.length);
      joined[name] = { data, shape: [2, ...one.shape.slice(1)] };
    }
    const wanted = [await oracle(givens[0], prompts[0]), await oracle(givens[2], prompts[1])];
    for (const [model, more] of [[models.merged, {}], [models.later, { withoutPast: models.first }]]) {
      expect(await bySequence(model, prompts, { inputs: joined, ...more })).toEqual(wanted);
      const twice = { inputs: givens[0], sequences: 2, ...more };
      // One row for all.
      expect(await bySequence(model, [prompts[0], prompts[0]], { ...twice, sequences: 1 })).toEqual([wanted[0], wanted[0]]);
      const both = [[], []];
      for await (const { id, sequence } of generate(model, prompts[0], { maxNewTokens: COUNT, ...twice })) both[sequence].push(id);
      expect(both).toEqual([wanted[0], wanted[0]]);
    }
  });

  test('tokens of a cache are known only with the same encoder', async () => {
    const cache = new GenerationCache();
    const ids = prompt(20);
    const wanted = [await oracle(givens[0], ids), await oracle(givens[2], ids)];
    for (const [i, known] of [[0, 0], [2, 0], [0, 19]]) {
      expect(await idsOf(models.merged, ids, { inputs: givens[i], cache })).toEqual(wanted[i / 2]);
      if (known === 0) expect(cache.known).toEqual([0]);
    }
    // What was said goes on.
    const longer = [...ids, ...wanted[0].slice(0, -1), 7];
    expect(await idsOf(models.merged, longer, { inputs: givens[0], cache })).toEqual(await oracle(givens[0], longer));
    expect(cache.known).toEqual([longer.length - 1]);
    // What calls are given is a part of what is kept.
    const { bytes, sequences } = cache.memoryUsage();
    expect(bytes).toBeGreaterThanOrEqual(2 * givens[0].encoder_hidden_states.data.byteLength);
    expect(sequences).toBeGreaterThanOrEqual(2);
    cache.destroy();
  });

  test('tokens that are forced come one by one', async () => {
    const forced = [9, 4, 33, 7, 21];
    const constraint = {
      begin: () => {
        let step = 0;
        const all = new Uint32Array(2).fill(0xffffffff);
        return { mask: () => all, push: () => step++, forced: () => (step === 1 ? forced : []), isDone: false };
      },
    };
    const [start] = await oracle(givens[1], [5], 1);
    const before = [5, start, ...forced];
    const wanted = [start, ...forced, ...(await oracle(givens[1], before, COUNT - 6))];
    expect(await idsOf(models.merged, [5], { inputs: givens[1], constraint })).toEqual(wanted);
  });
});

test('what is missing or wrong is said', async () => {
  const [model, first, later, reader] = await Promise.all([merged, withoutPast, withPast, encoder].map((make) => loadOnnx(context, make('marian'))));
  const message = (options, decoder = model) => idsOf(decoder, [1], options).then(String, ({ message: text }) => text);
  expect(await message({})).toMatch(/inputs: found none, allowed exactly/);
  expect(await message({ encoder: 3 })).toMatch('options: encoder: found 3, allowed { model, inputs }');
  expect(await message({ encoder: { model: reader } })).toMatch('options: encoder: inputs: found undefined');
  expect(await message({ encoder: { model: {}, inputs: {} } })).toMatch(/encoder: model: found .*, allowed an OnnxModel/);
  expect(await message({ encoder: { model: reader, inputs: {} } })).toMatch(/found none, allowed exactly the model's inputs 'input_ids', 'attention_mask'/);
  expect(await message({ withoutPast: 1 }, later)).toMatch(/withoutPast: found 1, allowed an OnnxModel/);
  expect(await message({ withoutPast: first }, later)).toMatch("found no value of its input 'encoder_attention_mask'");
  for (const one of [model, first, later, reader]) one.destroy();
});
