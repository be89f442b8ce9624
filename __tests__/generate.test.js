'use strict';

// webnn-node/generate: the same tokens as onnxruntime-node gives step by step, whatever the model's caches are made with; what is
// remembered; the options.

const { runInNewContext } = require('node:vm');
const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate } = require('../lib/generate.js');
const ort = require('../lib/onnxruntime.js');
const { ALONE, KINDS, LONGEST, TOKENS, WITH_STATES, decoder, expected } = require('./generate/decoders.js');
const { stepByStep } = require('./generate/reference.js');

let context;
const models = {};

beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  for (const kind of [...KINDS, ...ALONE, ...WITH_STATES, 'TensorScatter']) models[kind] = await loadOnnx(context, decoder(kind), { label: kind });
});

afterAll(() => context.destroy());

async function all(...given) {
  const found = [];
  for await (const token of generate(...given)) found.push(token);
  return found;
}

const idsOf = (tokens, sequence = 0) => tokens.filter((token) => token.sequence === sequence).map(({ id }) => id);
const prompt = (length, seed = 5) => Array.from({ length }, (_, i) => (i * i * seed + 3 * i + seed) % TOKENS);

describe.each([...KINDS, ...ALONE, 'TensorScatter'])('a decoder with %s', (kind) => {
  // A first step; some; more than a plan has rows for.
  test.each([1, 6, 70])('continues a prompt of %i tokens as onnxruntime-node does', async (length) => {
    const found = await all(models[kind], prompt(length), { maxNewTokens: 20 });
    const [wanted] = expected([{ kind, prompt: prompt(length), count: 20 }]);
    expect(idsOf(found)).toEqual(wanted.map(({ id }) => id));
    found.forEach(({ logprob }, i) => expect(Math.abs(logprob - wanted[i].logprob)).toBeLessThan(1e-4));
    expect(found.map(({ finish }) => finish)).toEqual([...new Array(19).fill(undefined), 'length']);
  });

  // As onnxruntime-genai's builder leaves it since 0.18: only the weights tell the size of a head.
  test('finds the size of a head that the file leaves open', async () => {
    const model = await loadOnnx(context, decoder(kind, 'kv_cache_dim'));
    const wanted = await all(models[kind], prompt(6), { maxNewTokens: 20 });
    expect(await all(model, prompt(6), { maxNewTokens: 20 })).toEqual(wanted);
    model.destroy();
  });

  test('goes on from what is remembered', async () => {
    const cache = new GenerationCache();
    const model = models[kind];
    const first = idsOf(await all(model, prompt(40), { maxNewTokens: 12, cache }));
    // The next turn of a talk; then back to a place before it; then something else.
    const turn = [...prompt(40), ...first, 7, 8, 9];
    for (const [ids, known] of [[turn, 51], [[...turn.slice(0, 45), 1, 2], 45], [turn.slice(0, 44), 43], [[9, ...prompt(6)], 0]]) {
      const [here, alone] = [await all(model, ids, { maxNewTokens: 8, cache }), await all(model, ids, { maxNewTokens: 8 })];
      expect(cache.known).toEqual([known]);
      expect(idsOf(here)).toEqual(idsOf(alone));
      here.forEach(({ logprob }, i) => expect(Math.abs(logprob - alone[i].logprob)).toBeLessThan(1e-4));
    }
    cache.destroy();
  });

  test('continues several prompts, each several times', async () => {
    const prompts = [prompt(9), prompt(3, 2), [...prompt(9).slice(0, 8), 1]];
    const cache = new GenerationCache();
    await all(models[kind], prompt(9), { maxNewTokens: 1, cache });
    const found = await all(models[kind], prompts, { maxNewTokens: 6, sequences: 2, cache });
    expect(cache.known).toEqual([8, 0, 8]);
    for (const [i, ids] of prompts.entries()) {
      const alone = idsOf(await all(models[kind], ids, { maxNewTokens: 6 }));
      expect([idsOf(found, 2 * i), idsOf(found, 2 * i + 1)]).toEqual([alone, alone]);
    }
  });
});

describe.each(WITH_STATES)('the decoder %s', (kind) => {
  test.each([1, 6, 70])('continues a prompt of %i tokens as onnxruntime-node does', async (length) => {
    const found = await all(models[kind], prompt(length), { maxNewTokens: 20 });
    const [wanted] = expected([{ kind, prompt: prompt(length), count: 20 }]);
    expect(idsOf(found)).toEqual(wanted.map(({ id }) => id));
    found.forEach(({ logprob }, i) => expect(Math.abs(logprob - wanted[i].logprob)).toBeLessThan(1e-4));
  });
});

describe.each(['genai', ...WITH_STATES])('step by step, %s', (kind) => {
  const ids = prompt(11);
  let wanted;
  beforeAll(() => {
    [wanted] = expected([{ kind, prompt: ids, count: 12 }]);
  });

  test('through the interface of onnxruntime-node', async () => {
    const found = await stepByStep(ort, decoder(kind), ids, 12);
    expect(found.map(({ id }) => id)).toEqual(wanted.map(({ id }) => id));
  });

  test('with run() of a model, whose results are passed back', async () => {
    const model = models[kind];
    const pasts = model.inputs.filter(({ name }) => name.startsWith('past'));
    const first = ({ shape }) => shape.map((size, axis) => (axis === 0 ? 1 : typeof size === 'number' ? size : 0));
    const caches = Object.fromEntries(pasts.map((past) => [past.name, { data: new Float32Array(first(past).reduce((a, b) => a * b, 1)), shape: first(past) }]));
    const found = [];
    let tokens = ids;
    let total = 0;
    while (found.length < 12) {
      total += tokens.length;
      const row = (list) => ({ data: BigInt64Array.from(list, BigInt), shape: [1, list.length] });
      const results = await model.run({ ...caches, input_ids: row(tokens), attention_mask: row(new Array(total).fill(1)) });
      const logits = results.logits.data.slice(-TOKENS);
      tokens = [logits.indexOf(Math.max(...logits))];
      found.push(...tokens);
      for (const { name } of pasts) caches[name] = results[name.replace('past_key_values', 'present')];
    }
    expect(found).toEqual(wanted.map(({ id }) => id));
  });
});

test('a decoder that cannot be mapped for caches without rows begins with rows that do not count', async () => {
  const model = await loadOnnx(context, decoder('pasts with rows'));
  const found = idsOf(await all(model, prompt(12), { maxNewTokens: 8 }));
  // Fewer tokens have such rows anyway.
  const cache = new GenerationCache();
  await all(model, prompt(6), { maxNewTokens: 1, cache });
  expect(idsOf(await all(model, prompt(12), { maxNewTokens: 8, cache }))).toEqual(found);
  expect(cache.known).toEqual([6]);
  model.destroy();
});

describe('options', () => {
  const model = () => models.GroupQueryAttention;
  const sampled = { temperature: 1.5, maxNewTokens: 12 };

  test('the same seed gives the same tokens, in each sequence others', async () => {
    const [a, b, c] = [await all(model(), [1], { ...sampled, seed: 3, sequences: 2 }), await all(model(), [1], { ...sampled, seed: 3, sequences: 2 }), await all(model(), [1], { ...sampled, seed: 4 })];
    // A step of two sequences may add up in another order than two steps of one, and when their plan is there is left to chance.
    expect(a.map(({ id, sequence, finish }) => [id, sequence, finish])).toEqual(b.map(({ id, sequence, finish }) => [id, sequence, finish]));
    a.forEach(({ logprob }, i) => expect(Math.abs(logprob - b[i].logprob)).toBeLessThan(1e-5));
    expect(idsOf(a, 0)).not.toEqual(idsOf(a, 1));
    expect(idsOf(a)).not.toEqual(idsOf(c));
  });

  test.each([{ topK: 1 }, { topP: 1e-9 }, { minP: 1 }])('%j leaves the most probable token', async (option) => {
    expect(idsOf(await all(model(), [1, 2], { ...sampled, ...option }))).toEqual(idsOf(await all(model(), [1, 2], { maxNewTokens: 12 })));
  });

  test('bias forbids and demands tokens, penalties avoid them', async () => {
    const [usual] = idsOf(await all(model(), [1, 2], { maxNewTokens: 1 }));
    for (const bias of [{ [usual]: -Infinity }, new Map([[usual, -Infinity]])]) {
      expect(idsOf(await all(model(), [1, 2], { maxNewTokens: 20, bias }))).not.toContain(usual);
    }
    expect(idsOf(await all(model(), [1, 2], { maxNewTokens: 5, bias: { 11: 1e4 } }))).toEqual([11, 11, 11, 11, 11]);
    for (const penalty of [{ presencePenalty: 1e4 }, { frequencyPenalty: 1e4 }]) {
      const found = idsOf(await all(model(), [1, 2], { maxNewTokens: TOKENS, ...penalty }));
      expect(new Set(found).size).toBe(TOKENS);
    }
    const everything = Array.from({ length: TOKENS - 1 }, (_, id) => id);
    const bias = Object.fromEntries(everything.map((id) => [id, 1e3]));
    expect(idsOf(await all(model(), everything, { maxNewTokens: 1, repetitionPenalty: 1e6, bias }))).toEqual([TOKENS - 1]);
  });

  test('ends behind tokens and sequences of tokens', async () => {
    const free = idsOf(await all(model(), [4, 2], { maxNewTokens: 12 }));
    const first = (stop) => all(model(), [4, 2], { maxNewTokens: 12, stop });
    const at = free.indexOf(free[3]) + 1;
    for (const stop of [free[3], BigInt(free[3]), [free[3], 1000]]) {
      const found = await first(stop);
      expect(idsOf(found)).toEqual(free.slice(0, at));
      expect(found.at(-1).finish).toBe('stop');
    }
    expect(idsOf(await first([[free[0], free[1], free[2]]]))).toEqual(free.slice(0, 3));
    expect(await all(model(), [4, 2], { maxNewTokens: 0 })).toEqual([]);
  });

  test('a function ends a sequence, and the others go on', async () => {
    const options = { maxNewTokens: 6, sequences: 2, temperature: 1, seed: 3 };
    const of = (tokens, wanted) => tokens.filter(({ sequence }) => sequence === wanted).map(({ id, finish }) => [id, finish]);
    const free = await all(model(), [4, 2], options);
    const seen = [];
    const until = (token) => seen.push({ ...token }) && token.sequence === 1 && of(seen, 1).length === 3;
    const found = await all(model(), [4, 2], { ...options, until });
    expect(of(found, 0)).toEqual(of(free, 0));
    expect(of(found, 1)).toEqual(of(free, 1).slice(0, 3).map(([id], i) => [id, i === 2 ? 'stop' : undefined]));
    expect(seen).toEqual(found.map(({ id, logprob, sequence }) => ({ id, logprob, sequence })));
  });

  test('a hook sees the logits and changes them', async () => {
    const seen = [];
    const logits = (numbers, { sequence, ids, prompt: given }) => {
      seen.push([sequence, [...given], ids.length, numbers.length]);
      if (ids.length === 1) return new Float32Array(TOKENS).fill(-Infinity).fill(1, 5, 6);
      numbers.fill(-Infinity, 0, 30);
      return undefined;
    };
    const found = idsOf(await all(model(), [1, 2], { maxNewTokens: 3, logits }));
    expect(seen).toEqual([0, 1, 2].map((count) => [0, [1, 2], count, TOKENS]));
    expect(found[0] >= 30 && found[1] === 5 && found[2] >= 30).toBe(true);
    // Of another realm, too.
    const other = runInNewContext(`numbers = new Float32Array(${TOKENS}); numbers[9] = Infinity; numbers`);
    for (const temperature of [0, 1]) {
      const forced = await all(model(), [1, 2], { temperature, maxNewTokens: 2, logits: () => other });
      expect(forced.map(({ id, logprob }) => [id, logprob])).toEqual([[9, 0], [9, 0]]);
    }
    expect(idsOf(await all(model(), [1, 2], { temperature: 1, maxNewTokens: 3, bias: { 11: Infinity } }))).toEqual([11, 11, 11]);
    // The place says which of several.
    for (const nothing of [-Infinity, NaN]) {
      const logits = (numbers, { sequence, ids }) => void (sequence === 1 && ids.length === 2 && numbers.fill(nothing));
      const none = all(model(), [[1, 2], [3]], { logits });
      await expect(none).rejects.toThrow('generate [GroupQueryAttention]: sequence 1, new token 3: found no token whose logit is above minus infinity');
    }
    await expect(all(model(), [1, 2], { bias: Object.fromEntries(Array.from({ length: TOKENS }, (_, id) => [id, -Infinity])) })).rejects.toThrow(/sequence 0, new token 1: found no token/);
  });

  test('a signal ends it at once, and the cache can be used afterwards', async () => {
    const cache = new GenerationCache();
    const reason = new Error('enough');
    // Native work that was begun settles in a later turn of the event loop, so it is under way here.
    for (const microtasks of [0, 1, 10]) {
      const controller = new AbortController();
      const tokens = generate(model(), prompt(200), { cache, signal: controller.signal });
      const next = tokens.next();
      for (let i = 0; i < microtasks; i++) await undefined;
      controller.abort(reason);
      await expect(next).rejects.toBe(reason);
    }
    await expect(all(model(), [1], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const [here, alone] = [await all(model(), prompt(50), { maxNewTokens: 4, cache }), await all(model(), prompt(50), { maxNewTokens: 4 })];
    expect(idsOf(here)).toEqual(idsOf(alone));
  });

  test('a step that a signal ends in its middle leaves the cache as it was', async () => {
    const ids = prompt(200);
    const alone = idsOf(await all(model(), ids, { maxNewTokens: 4 }));
    const cache = new GenerationCache();
    let ended = 0;
    // One turn of the event loop later each time, until the first token is there before the signal.
    for (let turns = 1; ended === turns - 1 && turns <= 200; turns++) {
      const controller = new AbortController();
      // From another first token on, so that nothing of it is known.
      const tokens = generate(model(), [turns % TOKENS, ...ids], { cache, signal: controller.signal });
      let settled = false;
      const end = tokens.next().then(() => true, () => false).finally(() => void (settled = true));
      for (let turn = 0; turn < turns && !settled; turn++) await new Promise(setImmediate);
      controller.abort();
      if (!(await end)) ended++;
      await tokens.return();
      expect(idsOf(await all(model(), ids, { maxNewTokens: 4, cache }))).toEqual(alone);
    }
    expect(ended).toBeGreaterThan(0);
  });

  test('wrong ones are refused by their names', () => {
    const refused = (...given) => {
      expect(() => generate(...given)).toThrow(TypeError);
      try {
        generate(...given);
      } catch (error) {
        return error.message;
      }
      return undefined;
    };
    for (const sequences of [0, 1025, 1e9]) expect(refused(model(), [1], { sequences })).toMatch(`options: sequences: found ${sequences}, allowed a whole number from 1 to 1024`);
    expect(refused({}, [1])).toBe('generate: model: found an object, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime');
    expect(refused(model(), 'text')).toMatch("ids: found 'text', allowed an array of tokens, or an array of those");
    expect(refused(model(), ['1', '2'])).toMatch('ids: found an array of strings, allowed an array of tokens');
    expect(refused(model(), [[1], [2, 'x']])).toMatch('ids: found an array of arrays of strings, allowed an array of tokens');
    expect(refused(model(), [])).toMatch('ids: found no token');
    expect(refused(model(), [1.5])).toMatch('ids: found 1.5, allowed whole numbers');
    expect(refused(model(), [1], { topk: 1 })).toMatch("options: found 'topk', allowed adapter, bias, cache");
    expect(refused(model(), [1], { topP: 0 })).toMatch('options: topP: found 0, allowed a number above 0, at most 1');
    expect(refused(model(), [1], { stop: [[]] })).toMatch('options: stop: found');
    expect(refused(model(), [1], { until: 3 })).toMatch('options: until: found 3, allowed a function');
    expect(refused(model(), [1], { bias: { x: 1 } })).toMatch("options: bias: found 'x', allowed the number of a token");
    expect(refused(model(), [1], { signal: { aborted: false, addEventListener() {} } })).toMatch('options: signal: found an object, allowed an AbortSignal');
    expect(refused(model(), [1], { cache: {} })).toMatch('options: cache: found an object, allowed a GenerationCache');
  });

  test('members of options that are misspelt are refused, and what is null', () => {
    const refused = (options, ids = [1]) => {
      try {
        generate(model(), ids, options);
      } catch (error) {
        return `${error.name}: ${error.message}`;
      }
      return undefined;
    };
    const whole = 'whole numbers from 0 to 2147483647';
    expect(refused({ speculate: { prompt: true, guess: 3 } })).toMatch("TypeError: generate [GroupQueryAttention]: options: speculate: found 'guess', allowed draft, guesses, prompt");
    expect(refused({ encoder: { model: model(), inputs: {}, input: {} } })).toMatch("options: encoder: found 'input', allowed inputs, model");
    expect(refused({ features: { token: 1, value: 3 } })).toMatch("options: features: found 'value', allowed grid, inputs, model, token, values");
    expect(refused({ features: { token: 1, values: new Float32Array(1), model: model() } })).toMatch('options: features: values: found a Float32Array, allowed values or a model, not both');
    for (const name of ['seed', 'maxNewTokens', 'sequences', 'temperature', 'topK', 'topP', 'minP', 'repetitionPenalty', 'presencePenalty', 'frequencyPenalty', 'topLogprobs', 'speculate', 'stop', 'bias', 'cacheType']) {
      expect(refused({ [name]: null })).toMatch(`TypeError: generate [GroupQueryAttention]: options: ${name}: found null, allowed `);
      expect(refused({ [name]: undefined })).toBeUndefined();
    }
    for (const key of ['', ' 1', '1.0', '0x1', '1e1', '-1', '01', '2147483648']) expect(refused({ bias: { [key]: 1 } })).toMatch(`options: bias: found '${key}', allowed the number of a token`);
    for (const key of [1.5, -1, 2n ** 40n, null, {}]) expect(refused({ bias: new Map([[key, 1]]) })).toMatch('options: bias: found ');
    for (const bias of [{ 1: 1 }, new Map([[1, 1], [2n, 1], ['3', 1]])]) expect(refused({ bias })).toBeUndefined();
    expect(refused({ stop: [[1, -1]] })).toMatch(`options: stop: found -1, allowed ${whole}`);
    // eslint-disable-next-line no-sparse-arrays
    for (const stop of [[[1, , 2]], [[1], undefined]]) expect(refused({ stop })).toMatch('options: stop: found ');
    expect(refused({}, [1, -3])).toMatch(`ids: found -3, allowed ${whole}`);
    expect(refused({}, [[1], [2, null]])).toMatch('ids: found an array with an array with null, allowed an array of tokens');
    expect(refused({}, [1, {}])).toMatch('ids: found an array with 1, allowed');
    const cache = new GenerationCache();
    for (const [ids, found] of [[[-1], '-1'], [[1, 'x'], "'x'"], [[], 'no token'], [null, 'null'], [[1.5], '1.5']]) {
      for (const call of ['pin', 'unpin']) expect(() => cache[call](ids)).toThrow(new TypeError(`${call}: ids: found ${found}, allowed an array of tokens, which are ${whole}`));
    }
  });

  test.each([...KINDS, ...ALONE, ...WITH_STATES])('tokens and positions beyond the model are told as such: %s', async (kind) => {
    const message = (ids, options) => all(models[kind], ids, { maxNewTokens: 3, ...options }).then(String, (error) => `${error.name}: ${error.message}`);
    const token = `OperationError: generate: ids: found the token ${TOKENS + 1}, allowed tokens from 0 to ${TOKENS - 1}`;
    expect(await message([1, TOKENS + 1])).toBe(token);
    // Beside others it is told to whose call it is.
    const several = [[1, 2], [3, TOKENS + 1], prompt(30)].map((ids) => message(ids));
    expect((await Promise.all(several)).map((found) => found === token)).toEqual([false, true, false]);
    const position = `OperationError: generate: ids: found a token at the position ${LONGEST}, allowed positions from 0 to ${LONGEST - 1}`;
    expect(await message(prompt(LONGEST + 30))).toBe(position);
    expect(await message(prompt(LONGEST - 2), { maxNewTokens: 9 })).toBe(position);
    expect(await all(models[kind], prompt(LONGEST - 2), { maxNewTokens: 3 })).toHaveLength(3);
  });

  test('hooks that say what they must not are told so', async () => {
    const transferred = (logits) => void structuredClone(logits.buffer, { transfer: [logits.buffer] });
    await expect(all(model(), [1], { logits: transferred })).rejects.toThrow(`options: logits: found that the function has transferred its logits, allowed that it leaves them, or returns a Float32Array of ${TOKENS} elements`);
    const instead = new Float32Array(TOKENS).fill(1, 5, 6);
    expect(idsOf(await all(model(), [1], { maxNewTokens: 2, logits: (logits) => (transferred(logits), instead) }))).toEqual([5, 5]);
    await expect(all(model(), [1], { logits: () => new Float32Array(3) })).rejects.toThrow(`options: logits: found a Float32Array of 3 elements as its result, allowed undefined, or a Float32Array of ${TOKENS} elements`);
    await expect(all(model(), [1], { logits: () => 5 })).rejects.toThrow('options: logits: found 5 as its result, allowed undefined');
    for (const until of [async () => true, async () => Promise.reject(new Error('unheard'))]) {
      await expect(all(model(), [1], { until })).rejects.toThrow('options: until: found a promise (await it first) as its result');
    }
  });

  test('a cache belongs to one model, and any number of calls may use it', async () => {
    const cache = new GenerationCache();
    const tokens = generate(model(), [1], { cache });
    await tokens.next();
    expect(await all(model(), [1], { cache, maxNewTokens: 2 })).toHaveLength(2);
    await tokens.return();
    await expect(all(models.concat, [1], { cache })).rejects.toThrow('found a GenerationCache of another model');
    // A call that is refused makes it nobody's.
    const free = new GenerationCache();
    await expect(all(models.concat, [1], { cache: free, inputs: { other: new Float32Array(1) } })).rejects.toThrow("found 'other'");
    const both = await Promise.allSettled([model(), models.genai].map((one) => all(one, [1], { cache: free, maxNewTokens: 2 })));
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ reason }) => reason).reason.message).toMatch('found a GenerationCache of another model');
    await expect(all(model(), [1], { inputs: { other: new Float32Array(1) } })).rejects.toThrow("options: inputs: found 'other', allowed no name");
    cache.destroy();
    await expect(all(model(), [1], { cache })).rejects.toThrow('the GenerationCache was destroyed');
  });
});

test('a session of webnn-node/onnxruntime is continued like its model', async () => {
  const { InferenceSession } = require('../lib/onnxruntime.js');
  const session = await InferenceSession.create(decoder('concat'));
  const wanted = idsOf(await all(models.concat, prompt(9), { maxNewTokens: 5 }));
  expect(idsOf(await all(session, prompt(9), { maxNewTokens: 5 }))).toEqual(wanted);
  await session.release();
  expect(() => generate(session, prompt(9))).toThrow('Session already disposed.');
});

test('models that are no decoders are refused', async () => {
  const { writeModel } = require('./onnx/write.js');
  const bytes = writeModel({
    opset: 17,
    inputs: [{ name: 'input_ids', type: 'int64', shape: ['batch', 'length'] }],
    outputs: [{ name: 'logits' }],
    nodes: [{ op: 'Cast', inputs: ['input_ids'], outputs: ['logits'], attributes: { to: 1 } }],
  });
  const model = await loadOnnx(context, bytes);
  await expect(all(model, [1])).rejects.toThrow('found a model without a cache');
});
