'use strict';

// The operators of the steps of generate(), in model.profile().

const { ml } = require('webnn-node');
const { generate, generationUsage } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { TOKENS, decoder } = require('./generate/decoders.js');

const prompt = (length, seed = 0) => Array.from({ length }, (_, i) => (7 * i + seed) % TOKENS);

async function all(...given) {
  const found = [];
  for await (const { id } of generate(...given)) found.push(id);
  return found;
}

let context;
let model;
beforeEach(async () => {
  context = await ml.createContext({ accelerated: false, numThreads: 2 });
  model = await loadOnnx(context, decoder('genai'));
});
afterEach(() => context.destroy());

test('each step of a call is a run, with the rows that it computes', async () => {
  const ids = prompt(12);
  const tokens = await all(model, ids, { maxNewTokens: 5 });
  const profile = model.profile();
  expect(await all(model, [3, ...ids], { maxNewTokens: 5 })).toHaveLength(5);
  profile.stop();
  expect(await all(model, ids, { maxNewTokens: 5 })).toEqual(tokens);
  expect(profile.runs).toHaveLength(5);
  const counts = profile.runs.map(({ steps }) => steps.length);
  expect(new Set(counts.slice(1)).size).toBe(1);
  expect(counts[1]).toBeGreaterThan(5);
  for (const [number, { began, ms, steps }] of profile.runs.entries()) {
    expect(began).toBeGreaterThanOrEqual(profile.runs[Math.max(0, number - 1)].began);
    const product = steps.find(({ operator }) => /matmul/i.test(operator));
    expect([product.multiplications > 0, product.bytes > 0, product.implementation]).toEqual([true, true, expect.any(String)]);
    // The tokens of the prompt at once, later ones one by one.
    if (number > 0) expect(product.text).toMatch(/\[1,1,\d+\]/);
    expect(steps.at(-1).began + steps.at(-1).ms).toBeLessThanOrEqual(ms + 1);
    expect(steps.every(({ began: at, ms: length }) => at >= 0 && length >= 0)).toBe(true);
  }
  expect(JSON.parse(JSON.stringify(profile)).traceEvents.filter(({ cat }) => cat === 'run')).toHaveLength(5);
});

test('a step together with those of other calls is one run, of one of the calls', async () => {
  const calls = () => Promise.all([0, 1, 2, 3].map((seed) => all(model, prompt(8, 11 * seed), { maxNewTokens: 48 })));
  // Until plans for several are there.
  const alone = await calls();
  let profile;
  let before;
  let after;
  do {
    before = await generationUsage(model);
    profile = model.profile();
    expect(await calls()).toEqual(alone);
    profile.stop();
    after = await generationUsage(model);
  } while (after.runs - before.runs === after.steps - before.steps);
  const { steps, runs } = after;
  const joined = profile.runs.filter(({ steps: list }) => list.some(({ text }) => /\[[234],1,\d+\]/.test(text)));
  expect(joined.length).toBeGreaterThan(0);
  // Beside the runs of single tokens there are those of the prompts.
  expect(profile.runs.length).toBeLessThanOrEqual(runs - before.runs + 4);
  expect(profile.runs.length).toBeLessThan(steps - before.steps + 4);
  expect(profile.runs.every(({ steps: list }) => list.length > 0)).toBe(true);
});

test('a call that fails or is cancelled leaves the profile to others', async () => {
  const profile = model.profile();
  const controller = new AbortController();
  const reason = new Error('enough');
  const until = (token) => {
    if (token.id >= 0) controller.abort(reason);
    return false;
  };
  await expect(all(model, prompt(8), { maxNewTokens: 8, signal: controller.signal, until })).rejects.toBe(reason);
  expect(await all(model, prompt(8), { maxNewTokens: 2 })).toHaveLength(2);
  expect(profile.runs.length).toBeGreaterThanOrEqual(2);
});
