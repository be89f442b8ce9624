'use strict';

// Speculation of generate(): guesses change neither tokens nor their distribution, whatever the options are.

const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { ALONE, KINDS, TOKENS, WITH_STATES, decoder } = require('./generate/decoders.js');
const { generator, seed } = require('./onnx/random.js');

let context;
const models = {};
const ORIGINS = ['prompt', 'a draft', 'the same model'];

beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  for (const kind of KINDS) models[kind] = await loadOnnx(context, decoder(kind), { label: kind });
  models.draft = await loadOnnx(context, decoder('concat'), { label: 'draft' });
});

afterAll(() => context.destroy());

const prompt = (length, number = 5) => Array.from({ length }, (_, i) => (i * i * number + 3 * i + number) % TOKENS);
/** What a model easily goes on to repeat. */
const repeated = Array.from({ length: 30 }, (_, i) => [7, 8, 9, 3, 1][i % 5]);

async function all(...given) {
  const found = [];
  for await (const token of generate(...given)) found.push(token);
  return found;
}

const idsOf = (tokens, sequence = 0) => tokens.filter((token) => token.sequence === sequence).map(({ id }) => id);
const speculateOf = (origin, model) => (origin === 'prompt' ? 'prompt' : { draft: origin === 'a draft' ? models.draft : model });
/** The same, whatever it takes. */
const always = (speculate, guesses) => (speculate === 'prompt' ? { prompt: true, guesses } : { ...speculate, guesses });
const figures = async (model) => (({ guessed, accepted }) => ({ guessed, accepted }))(await generationUsage(model));

function expectSame(found, wanted) {
  expect(found.map(({ id, sequence, finish, forced }) => [id, sequence, finish, forced])).toEqual(wanted.map(({ id, sequence, finish, forced }) => [id, sequence, finish, forced]));
  found.forEach(({ logprob, top }, i) => {
    expect(Math.abs(logprob - wanted[i].logprob)).toBeLessThan(1e-4);
    expect(top?.map(({ id }) => id)).toEqual(wanted[i].top?.map(({ id }) => id));
  });
}

/** Sorted by sequences: a step may give several tokens of each. */
const inOrder = (tokens) => tokens.map((token, i) => [token, i]).sort(([a, i], [b, j]) => a.sequence - b.sequence || i - j).map(([token]) => token);

/** Compares with a call without guesses, until guesses were checked: their plans are made meanwhile. */
async function compare(model, ids, options, speculate, { rounds = 200, accepted = true } = {}) {
  // A constraint and functions of a call have states.
  const given = () => (typeof options === 'function' ? options() : options);
  const wanted = inOrder(await all(model, ids, given()));
  const before = await figures(model);
  for (let round = 0; round < rounds; round++) {
    expectSame(inOrder(await all(model, ids, { ...given(), speculate })), wanted);
    expectSame(inOrder(await all(model, ids, { ...given(), speculate: always(speculate, [3, 1, 7, 15, 2][round % 5]) })), wanted);
    const now = await figures(model);
    expect(now.guessed).toBeGreaterThanOrEqual(now.accepted);
    if (accepted ? now.accepted > before.accepted : now.guessed > before.guessed) return wanted;
  }
  throw new Error(`no guesses were checked in ${rounds} rounds`);
}

describe.each(KINDS)('a decoder with %s', (kind) => {
  test.each(ORIGINS)('says the same with guesses of %s', async (origin) => {
    const model = models[kind];
    const speculate = speculateOf(origin, model);
    for (const ids of [[1], prompt(6), repeated]) {
      const wanted = await all(model, ids, { maxNewTokens: 80 });
      for (let round = 0; round < 4; round++) expectSame(await all(model, ids, { maxNewTokens: 80, speculate }), wanted);
    }
    await compare(model, repeated, { maxNewTokens: 120 }, speculate, { accepted: origin !== 'a draft' });
  });

  test('goes on from what was said with guesses', async () => {
    const model = models[kind];
    const cache = new GenerationCache();
    let ids = repeated;
    for (let turn = 0; turn < 4; turn++) {
      const options = { maxNewTokens: 40, cache, speculate: 'prompt' };
      const [found, wanted] = [await all(model, ids, options), await all(model, ids, { maxNewTokens: 40 })];
      expectSame(found, wanted);
      if (turn > 0) expect(cache.known[0]).toBeGreaterThanOrEqual(ids.length - 3);
      ids = [...ids, ...idsOf(found), 5, 9];
    }
    cache.destroy();
  });
});

describe('options', () => {
  const KIND = 'GroupQueryAttention';
  const TABLE = [
    ['a temperature', { temperature: 0.7, seed: 3 }],
    ['topK, topP and minP', { temperature: 1.2, topK: 9, topP: 0.9, minP: 0.01, seed: 4 }],
    ['penalties', { temperature: 0.4, repetitionPenalty: 1.05, presencePenalty: 0.01, frequencyPenalty: 0.001, seed: 5 }],
    ['a bias', { bias: { 3: 2, 5: -1 } }],
    ['topLogprobs', { topLogprobs: 3 }],
    ['topLogprobs and a temperature', { topLogprobs: 3, temperature: 0.5, seed: 1 }],
    ['a function for logits', { logits: (logits) => logits.map((x, i) => (i === 11 ? x - 1 : x)) }],
    ['a function for logits that waits', { logits: async (logits, { ids }) => void (logits[ids.length % TOKENS] += 0.1) }],
    ['a stop', { stop: [[9, 9, 9], 1000] }],
    ['a function that ends a sequence', () => ({ until: ((count) => () => ++count === 57)(0) })],
    ['several sequences', { sequences: 3, temperature: 0.4, seed: 6 }],
    ['several sequences that are equal', { sequences: 2 }],
    ['the last guess as the last token', { maxNewTokens: 33 }],
  ];
  test.each(TABLE.flatMap(([name, options]) => ['prompt', 'the same model'].map((origin) => [name, origin, options])))('%s, guesses of %s', async (_, origin, options) => {
    const model = models[KIND];
    const given = () => ({ maxNewTokens: 90, ...(typeof options === 'function' ? options() : options) });
    await compare(model, repeated, given, speculateOf(origin, model));
  });

  test('several prompts', async () => {
    await compare(models[KIND], [repeated, repeated.slice(3), prompt(40)], { maxNewTokens: 90 }, 'prompt');
  });

  /** Tokens of places, where one with a single token is forced. */
  const places = (list) => ({
    begin() {
      let at = 0;
      return {
        mask: () => list[at % list.length].reduce((mask, id) => ((mask[id >> 5] |= 1 << (id & 31)), mask), new Uint32Array(2)),
        push: () => void at++,
        forced() {
          const first = at;
          while (list[at % list.length].length === 1) at++;
          return Array.from({ length: at - first }, (_, i) => list[(first + i) % list.length][0]);
        },
        isDone: false,
      };
    },
  });

  test.each(['prompt', 'the same model'])('a constraint whose tokens are chosen and forced, guesses of %s', async (origin) => {
    const list = [[1, 2, 3], [5], [6], [7, 8], [20, 21, 22, 23]];
    for (const more of [{}, { temperature: 0.3, seed: 8 }, { topLogprobs: 2 }, { logits: (logits) => void (logits[2] += 0.1) }]) {
      const found = await compare(models[KIND], repeated, () => ({ maxNewTokens: 80, constraint: places(list), ...more }), speculateOf(origin, models[KIND]));
      found.forEach(({ id }, i) => expect(list[i % list.length]).toContain(id));
    }
  });

  test('a signal ends a call with guesses, and the next one says the same', async () => {
    const wanted = await all(models[KIND], repeated, { maxNewTokens: 60 });
    for (let after = 0; after < 12; after++) {
      const controller = new AbortController();
      const found = [];
      const run = async () => {
        for await (const token of generate(models[KIND], repeated, { maxNewTokens: 60, speculate: 'prompt', signal: controller.signal })) {
          found.push(token);
          if (found.length > after * 3) controller.abort(new Error('enough'));
        }
      };
      await expect(run()).rejects.toThrow('enough');
      expectSame(found, wanted.slice(0, found.length));
    }
    expectSame(await all(models[KIND], repeated, { maxNewTokens: 60, speculate: 'prompt' }), wanted);
  });
});

test(`calls at once say what each says alone (WEBNN_SEED=${seed})`, async () => {
  const random = generator(990);
  const below = (count) => Math.floor(random() * count);
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const calls = Array.from({ length: 8 }, (_, i) => {
    const ids = i % 3 === 0 ? prompt(1 + below(40), 1 + i) : repeated.slice(below(8));
    return [ids, { maxNewTokens: 20 + below(80), ...(i % 2 === 0 ? { temperature: 0.5, seed: below(100) } : {}) }];
  });
  const wanted = [];
  for (const [ids, options] of calls) wanted.push(await all(model, ids, options));
  for (let round = 0; round < 40; round++) {
    const found = await Promise.all(calls.map(([ids, options], i) => all(model, ids, { ...options, ...(i !== 4 && { speculate: i === 5 ? { draft: models.draft } : round % 2 === 0 ? 'prompt' : { prompt: true, guesses: 3 } }) })));
    found.forEach((tokens, i) => expectSame(tokens, wanted[i]));
  }
  expect((await figures(model)).accepted).toBeGreaterThan(0);
  model.destroy();
});

/** That a chi-squared number is larger has a probability of one in a million, about (Wilson and Hilferty). */
const mostSquares = (freedom) => freedom * (1 - 2 / (9 * freedom) + 4.7534 * Math.sqrt(2 / (9 * freedom))) ** 3;

test.each(['prompt', 'a draft'])(`tokens that are sampled with guesses of %s come as often as they should (WEBNN_SEED=${seed})`, async (origin) => {
  const model = models.concat;
  const options = { temperature: 1, topK: 3 };
  const speculate = always(origin === 'prompt' ? 'prompt' : { draft: models.GroupQueryAttention }, 3);
  // Each token, so that whatever comes has come before; after it the last one.
  const ids = [...Array.from({ length: TOKENS }, (_, id) => [id, 3]).flat(), 3, 3];
  const LENGTH = 3;
  // What the model says itself: probabilities of the three tokens that are left, renormalized.
  const next = async (tokens) => {
    const [{ top }] = await all(model, tokens, { maxNewTokens: 1, topLogprobs: 3 });
    const sum = top.reduce((total, { logprob }) => total + Math.exp(logprob), 0);
    return top.map(({ id, logprob }) => [id, Math.exp(logprob) / sum]);
  };
  let expected = [[[], 1]];
  for (let place = 0; place < LENGTH; place++) {
    const longer = [];
    for (const [tokens, probability] of expected) {
      for (const [id, own] of await next([...ids, ...tokens])) longer.push([[...tokens, id], probability * own]);
    }
    expected = longer;
  }
  const before = await figures(model);
  const counts = new Map(expected.map(([tokens]) => [String(tokens), 0]));
  let total = 0;
  for (let round = 0; round < 60; round++) {
    const found = await all(model, ids, { ...options, maxNewTokens: LENGTH + 1, sequences: 50, seed: (seed % 1e6) * 1000 + round, speculate });
    for (let sequence = 0; sequence < 50; sequence++) {
      const key = String(idsOf(found, sequence).slice(0, LENGTH));
      expect(counts.has(key)).toBe(true);
      counts.set(key, counts.get(key) + 1);
      total++;
    }
  }
  const now = await figures(model);
  expect(now.guessed).toBeGreaterThan(before.guessed);
  // Those that are seldom count together.
  let [squares, cells, rest, few] = [0, 0, 0, 0];
  for (const [tokens, probability] of expected) {
    const count = counts.get(String(tokens));
    if (probability * total < 8) {
      [rest, few] = [rest + probability * total, few + count];
      continue;
    }
    squares += (count - probability * total) ** 2 / (probability * total);
    cells++;
  }
  if (rest > 0) [squares, cells] = [squares + (few - rest) ** 2 / Math.max(rest, 1), cells + 1];
  expect(squares).toBeLessThan(mostSquares(cells - 1));
});

describe('models that cannot go back say the same without guesses', () => {
  test.each([...WITH_STATES, ...ALONE])('%s', async (kind) => {
    const model = await loadOnnx(context, decoder(kind), { label: kind });
    const wanted = await all(model, repeated, { maxNewTokens: 60 });
    for (let round = 0; round < 3; round++) expectSame(await all(model, repeated, { maxNewTokens: 60, speculate: 'prompt' }), wanted);
    expect(await generationUsage(model)).toMatchObject({ guessed: 0, accepted: 0, speculationReason: expect.stringMatching(/./) });
    model.destroy();
  });

  test('a draft that cannot go back is refused', async () => {
    const draft = await loadOnnx(context, decoder('genai with states'));
    await expect(all(models.concat, [1, 2], { speculate: { draft } })).rejects.toThrow(/speculate: found a draft model with states that cannot go back/);
    draft.destroy();
  });
});

describe('refuses', () => {
  test.each(['x', true, null, {}, { draft: 'x' }, { prompt: false }, []])('%j', (speculate) => {
    expect(() => generate(models.concat, [1], { speculate })).toThrow(TypeError);
    expect(() => generate(models.concat, [1], { speculate })).toThrow(/options: speculate: found .*, allowed 'prompt', or an object/);
  });

  test.each([-1, 0, 16, 1.5, '3'])('%j guesses', (guesses) => {
    expect(() => generate(models.concat, [1], { speculate: { prompt: true, guesses } })).toThrow(/options: speculate: guesses: found .*, allowed a whole number from 1 to 15/);
  });

  test('a draft with other tokens', async () => {
    const draft = await loadOnnx(context, decoder('concat', undefined, 57));
    const run = async () => {
      for (let round = 0; round < 200; round++) await all(models.concat, repeated, { maxNewTokens: 40, speculate: { draft, guesses: 3 } });
    };
    await expect(run()).rejects.toThrow('speculate: found a draft model with 57 tokens, allowed one with the 40 tokens of the model');
    draft.destroy();
  });

  test('a draft that was destroyed', async () => {
    const draft = await loadOnnx(context, decoder('concat'));
    draft.destroy();
    await expect(all(models.concat, [1], { speculate: { draft } })).rejects.toThrow(/destroyed/);
  });
});
