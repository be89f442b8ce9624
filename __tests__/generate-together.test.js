'use strict';

// Many calls of generate() on one model at once: they come, go, are cancelled and fail, and each gives the tokens that it gives alone.

const { setImmediate: immediate, setTimeout: timeout } = require('node:timers/promises');
const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { LONGEST, TOKENS, decoder, dynamicallyQuantized, halved, withGreatest } = require('./generate/decoders.js');
const { generator, seed } = require('./onnx/random.js');

// Masks and attention in basic operators, contributed ones, weights of 4 bits; states; prompts that are one step.
const KINDS = ['genai', 'GroupQueryAttention', 'MultiHeadAttention', 'concat', 'genai with states', 'prompts alone'];
const CALLS = 10;

let context;

beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});

afterAll(() => context.destroy());

const pause = (turns) => (turns > 20 ? timeout(turns / 10) : immediate());

/** What a call does, and what is done to it. */
function callOf(random) {
  const below = (count) => Math.floor(random() * count);
  const prompts = Array.from({ length: 1 + Math.floor(random() * 1.4) }, () => Array.from({ length: 1 + below(below(3) === 0 ? 150 : 12) }, () => below(TOKENS)));
  const options = { maxNewTokens: 1 + below(24), sequences: 1 + Math.floor(random() * 1.3) };
  if (random() < 0.3) options.bias = { [below(TOKENS)]: 0.5 };
  if (random() < 0.2) options.repetitionPenalty = 1.2;
  const ends = random() < 0.3 ? ['abort', 'hook', 'return'][below(3)] : undefined;
  return { prompts, options, ends, after: below(8), delay: below(60), slow: random() < 0.2 };
}

/** Tokens of a call by its sequences; those before it ended where it ends early. */
async function said(model, { prompts, options, ends, after, delay, slow }, isAlone) {
  const given = { ...options };
  const controller = new AbortController();
  if (!isAlone) {
    await pause(delay);
    if (ends === 'abort') given.signal = controller.signal;
    if (ends === 'hook') {
      let steps = 0;
      given.logits = () => {
        if (steps++ >= after) throw new Error('the hook failed');
      };
    }
  }
  const found = [];
  try {
    for await (const token of generate(model, prompts, given)) {
      found.push([token.sequence, token.id, token.finish]);
      if (isAlone) continue;
      if (slow) await pause(30);
      if (ends === 'return' && found.length > after) break;
      // In the middle of the next step.
      if (ends === 'abort' && found.length > after) setImmediate(() => controller.abort(new Error('enough')));
    }
  } catch (error) {
    if (!['the hook failed', 'enough'].includes(error.message)) throw error;
  }
  return found;
}

describe.each(KINDS)('a decoder with %s', (kind) => {
  let model;
  beforeAll(async () => {
    model = await loadOnnx(context, decoder(kind), { label: kind });
  });
  afterAll(() => model.destroy());

  test(`${CALLS} calls that come and go say what each says alone (WEBNN_SEED=${seed})`, async () => {
    const random = generator(KINDS.indexOf(kind) + 900);
    const calls = Array.from({ length: CALLS }, () => callOf(random));
    const alone = [];
    for (const call of calls) alone.push(await said(model, call, true));
    // The second time all plans are there.
    for (let round = 0; round < 3; round++) {
      const together = await Promise.all(calls.map((call) => said(model, call, false)));
      for (const [i, tokens] of together.entries()) {
        const { ends } = calls[i];
        expect(tokens).toEqual(ends === undefined ? alone[i] : alone[i].slice(0, tokens.length));
      }
    }
  });

  test('calls with caches go on together', async () => {
    const caches = Array.from({ length: 4 }, () => new GenerationCache());
    const prompts = caches.map((_, i) => Array.from({ length: 3 + 9 * i }, (_, j) => (7 * i + j * j) % TOKENS));
    const turn = async (cache, ids) => {
      const found = [];
      for await (const { id } of generate(model, ids, { maxNewTokens: 9, ...(cache && { cache }) })) found.push(id);
      return found;
    };
    for (let round = 0; round < 3; round++) {
      const found = await Promise.all(caches.map((cache, i) => turn(cache, prompts[i])));
      for (const [i, ids] of found.entries()) {
        expect(ids).toEqual(await turn(undefined, prompts[i]));
        prompts[i] = [...prompts[i], ...ids, round];
      }
    }
    caches.forEach((cache) => cache.destroy());
  });
});

/** Tokens of a call, and how it ended. */
async function ended(model, ids, options) {
  const found = [];
  try {
    for await (const { id } of generate(model, ids, options)) found.push(id);
  } catch (error) {
    found.push(error.message);
  }
  return found;
}

test.each(KINDS.slice(0, 4))('prompts of a decoder with %s are computed in the runs of steps', async (kind) => {
  const model = await loadOnnx(context, decoder(kind));
  const cache = new GenerationCache({ maxBytes: 0 });
  // The last one is longer than the model allows.
  const prompts = [3, 120, LONGEST + 9].map((length, i) => Array.from({ length }, (_, j) => (j * j * (i + 2) + i) % TOKENS));
  const both = (second) => [prompts[0], second].map((ids, i) => ended(model, ids, { maxNewTokens: i === 0 ? 40 : 5, cache }));
  const alone = [];
  for (const ids of prompts) alone.push(await ended(model, ids, { maxNewTokens: ids === prompts[0] ? 40 : 5, cache }));
  // Until their plans are there, which are made meanwhile.
  let joined = 0;
  for (let round = 0; round < 200 && joined === 0; round++) {
    const { promptTokens } = await generationUsage(model);
    expect(await Promise.all(both(prompts[1]))).toEqual([alone[0], alone[1]]);
    joined = (await generationUsage(model)).promptTokens - promptTokens;
  }
  expect(joined).toBeGreaterThan(0);
  expect(joined).toBeLessThan(120);
  const [first, second] = await Promise.all(both(prompts[2]));
  expect(first).toEqual(alone[0]);
  // Where it ends depends on the size of its pieces.
  expect([second, alone[2]]).toEqual([[expect.any(String)], [expect.any(String)]]);
  model.destroy();
});

test.each(KINDS)('steps of a decoder with %s run together', async (kind) => {
  const model = await loadOnnx(context, decoder(kind));
  const prompts = [3, 20, 70, 9].map((length, i) => Array.from({ length }, (_, j) => (j * j * (i + 2) + i) % TOKENS));
  const alone = [];
  for (const ids of prompts) alone.push(await ended(model, ids, { maxNewTokens: 30 }));
  // Until their plans are there, which are made meanwhile.
  let share = 1;
  for (let round = 0; round < 200 && share > 0.4; round++) {
    const before = await generationUsage(model);
    expect(await Promise.all(prompts.map((ids) => ended(model, ids, { maxNewTokens: 30 })))).toEqual(alone);
    const { steps, runs, reason } = await generationUsage(model);
    expect(reason).toBeUndefined();
    expect(steps - before.steps).toBe(4 * 30);
    share = (runs - before.runs) / (steps - before.steps);
  }
  expect(share).toBeLessThanOrEqual(0.4);
  // So do those of one call.
  const before = await generationUsage(model);
  await ended(model, prompts, { maxNewTokens: 30 });
  expect((await generationUsage(model)).runs - before.runs).toBeLessThan(80);
  model.destroy();
});

test.each(['GroupQueryAttention', 'concat'])('sequences of a decoder with %s of any lengths share few plans', async (kind) => {
  const model = await loadOnnx(context, decoder(kind));
  const random = generator(KINDS.indexOf(kind) + 950);
  const below = (count) => Math.floor(random() * count);
  // More than run together, and longer than those before them in each round.
  const calls = Array.from({ length: 20 }, () => {
    const length = 1 + below(below(2) === 0 ? 8 : LONGEST - 60);
    return { ...callOf(random), prompts: [Array.from({ length }, () => below(TOKENS))] };
  });
  const alone = [];
  for (const call of calls) alone.push(await said(model, call, true));
  let share = 1;
  for (let round = 0; round < 60 && (round < 3 || share > 0.6); round++) {
    const before = await generationUsage(model);
    const together = await Promise.all(calls.map((call) => said(model, call, false)));
    for (const [i, tokens] of together.entries()) {
      expect(tokens).toEqual(calls[i].ends === undefined ? alone[i] : alone[i].slice(0, tokens.length));
    }
    const { steps, runs } = await generationUsage(model);
    share = (runs - before.runs) / (steps - before.steps);
  }
  expect(share).toBeLessThanOrEqual(0.6);
  model.destroy();
});

/** The name of the error that a call ends with. */
async function endOf(tokens) {
  try {
    while (!(await tokens.next()).done);
    return 'no error';
  } catch ({ name }) {
    return name;
  }
}

test('a call that finds no memory beside others ends with a QuotaExceededError, and the others go on', async () => {
  const plain = await loadOnnx(context, decoder('GroupQueryAttention'));
  // Room for the caches of ten sequences, about.
  const model = await loadOnnx(context, decoder('GroupQueryAttention'), { memoryLimit: 2_000_000 });
  const prompts = [[1, 2, 3], [4, 5, 6, 7]];
  const run = (ids, options) => ended(model, ids, { maxNewTokens: 60, ...options });
  const alone = [];
  for (const ids of prompts) alone.push(await ended(plain, ids, { maxNewTokens: 60 }));
  let undisturbed = 0;
  for (let round = 0; round < 4; round++) {
    let greedy;
    const logits = (_, { ids }) => {
      // Its copies diverge in a step together with the others.
      if (ids.length >= 10) greedy ??= endOf(generate(model, [8, 9], { maxNewTokens: 20, sequences: 14, seed: 1 }));
    };
    const found = await Promise.all([run(prompts[0], { logits }), run(prompts[1])]);
    expect(await greedy).toBe('QuotaExceededError');
    // Caches of the others that grow just then may find no room either. Their tokens are right as far as they go.
    const refused = found.filter((tokens) => typeof tokens.at(-1) === 'string');
    for (const tokens of refused) expect(tokens.pop()).toMatch('memoryLimit');
    expect(found).toEqual(alone.map((tokens, i) => tokens.slice(0, found[i].length)));
    if (refused.length === 0) undisturbed++;
  }
  expect(undisturbed).toBeGreaterThan(0);
  // And there is room again.
  expect(await Promise.all(prompts.map((ids) => run(ids)))).toEqual(alone);
  for (let wait = 0; wait < 100 && model.memoryUsage().caches > 0; wait++) await pause(50);
  expect(model.memoryUsage().caches).toBe(0);
  plain.destroy();
  model.destroy();
});

const HALVED = ['GroupQueryAttention', 'MultiHeadAttention', 'concat'].map((kind) => [`${kind} of float16`, () => halved(decoder(kind))]);

test.each([...HALVED, ['TensorScatter', () => decoder('TensorScatter')]])('steps of a decoder with %s run together, and give the tokens of a call alone', async (label, bytes) => {
  const model = await loadOnnx(context, bytes(), { label });
  const prompts = [[1, 2, 3], Array.from({ length: 70 }, (_, i) => (i * i) % TOKENS), [9], Array.from({ length: 130 }, (_, i) => (3 * i * i) % TOKENS)];
  const run = (ids) => ended(model, ids, { maxNewTokens: 40, cache: new GenerationCache({ maxBytes: 0 }) });
  const alone = [];
  for (const ids of prompts) alone.push(await run(ids));
  let share = 1;
  for (let round = 0; round < 100 && share > 0.6; round++) {
    const before = await generationUsage(model);
    expect(await Promise.all(prompts.map(run))).toEqual(alone);
    const { steps, runs } = await generationUsage(model);
    share = (runs - before.runs) / (steps - before.steps);
  }
  expect(share).toBeLessThanOrEqual(0.6);
  model.destroy();
});

const APART = [
  ['a graph for each length', () => withGreatest(decoder('concat')), 'a graph for each length'],
  ['a scale for all numbers of a product', () => dynamicallyQuantized(decoder('concat')), 'no product with weights can be computed once for all sequences: their operands are made by dynamicQuantizeLinear'],
];

test.each(APART)('a model with %s says why its steps do not run together', async (label, bytes, said) => {
  const model = await loadOnnx(context, bytes(), { label });
  const prompts = [[1, 2, 3], [4, 5, 6, 7]];
  const alone = [];
  for (const ids of prompts) alone.push(await ended(model, ids, { maxNewTokens: 12 }));
  expect(await generationUsage(model)).toMatchObject({ steps: 24, runs: 24 });
  // Until two of their steps wait at the same time.
  for (let round = 2; (await generationUsage(model)).reason === undefined && round < 100; round++) {
    expect(await Promise.all(prompts.map((ids) => ended(model, ids, { maxNewTokens: 12 })))).toEqual(alone);
    expect(await generationUsage(model)).toMatchObject({ steps: 24 * round, runs: 24 * round });
  }
  expect((await generationUsage(model)).reason).toMatch(said);
  // Nor do they afterwards.
  const before = await generationUsage(model);
  expect(await Promise.all(prompts.map((ids) => ended(model, ids, { maxNewTokens: 12 })))).toEqual(alone);
  const { steps, runs } = await generationUsage(model);
  expect([steps - before.steps, runs - before.runs]).toEqual([24, 24]);
  model.destroy();
});

test('a model that is none is refused', () => expect(generationUsage({})).rejects.toThrow('generationUsage: model: found'));

test('a sequence that is longer than the table of positions ends alone', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const prompts = [LONGEST - 12, 20, LONGEST - 8].map((length, i) => Array.from({ length }, (_, j) => (j * j + 3 * i) % TOKENS));
  const alone = [];
  for (const ids of prompts) alone.push(await ended(model, ids, { maxNewTokens: 40 }));
  expect(alone.map((tokens) => typeof tokens.at(-1))).toEqual(['string', 'number', 'string']);
  for (let round = 0; round < 3; round++) {
    const found = await Promise.all(prompts.map((ids) => ended(model, ids, { maxNewTokens: 40 })));
    expect(found).toEqual(alone);
  }
  model.destroy();
});

test('a long prompt leaves the steps of another call between its pieces', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const long = Array.from({ length: 240 }, (_, i) => (i * i) % TOKENS);
  const order = [];
  const run = async (name, ids, options) => {
    for await (const { id } of generate(model, ids, options)) order.push([name, id]);
  };
  const steps = run('steps', [1, 2, 3], { maxNewTokens: 60 });
  while (order.length < 5) await pause(1);
  const before = order.length;
  await run('prompt', long, { maxNewTokens: 1 });
  const at = order.findIndex(([name]) => name === 'prompt');
  expect(at - before).toBeGreaterThan(5);
  await steps;
  const alone = [];
  for await (const { id } of generate(model, long, { maxNewTokens: 1 })) alone.push(id);
  expect(order[at][1]).toBe(alone[0]);
  model.destroy();
});

test('more calls than there are threads for them get what each gets alone', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const prompts = Array.from({ length: 50 }, (_, i) => Array.from({ length: 20 + (i % 7) }, (_x, j) => (j * j + i) % TOKENS));
  // None of these plans is there yet, so the calls wait for plans.
  const together = await Promise.all(prompts.map((ids) => ended(model, ids, { maxNewTokens: 5 })));
  const alone = [];
  for (const ids of prompts) alone.push(await ended(model, ids, { maxNewTokens: 5 }));
  expect(together).toEqual(alone);
  model.destroy();
});
