'use strict';

// Steps of batches whose sequences have different lengths, of attention that appends to each sequence at its end: the results of single
// runs, which copy the caches, and of onnxruntime-node; each sequence has caches of its own.

const ort = require('../../lib/onnxruntime.js');
const { ml } = require('../../lib/index.js');
const { loadOnnx } = require('../../lib/onnx.js');
const native = require('../../lib/native.js');
const { decoder } = require('../generate/decoders.js');
const { expectedSteps, numbersOf, presentOf, runSteps } = require('../generate/steps.js');

/** A step of so many tokens, after which sequences have these lengths. */
const step = (of, lengths, count = 1, more = {}) => ({
  of,
  lengths,
  ids: lengths.map((_, sequence) => Array.from({ length: count }, (_, i) => (i * i * 3 + 7 * sequence + 5 * (of ?? 2) + i) % 40)),
  ...more,
});
/** Steps of one token each, one after the other. */
const chain = (first, lengths, count) => Array.from({ length: count }, (_, i) => step(first + i, lengths.map((length) => length + i + 1)));

const PROMPT = [3, 5, 4];
const scenarios = (size) => ({
  'a prompt and tokens, into the next rooms': [step(undefined, PROMPT, 5, size), ...chain(0, PROMPT, 70)],
  // The short ones have fewer rows than any plan for the long one alone.
  'short ones beside a long one': [step(undefined, [70, 1, 3], 70, size), ...chain(0, [70, 1, 3], 4), step(4, [77, 8, 10], 3)],
  'several tokens at a time': [step(undefined, PROMPT, 5, size), step(0, [6, 8, 7], 3), step(1, [8, 10, 9], 2), step(2, [9, 11, 10])],
  'branches, from one past and from an earlier one': [
    step(undefined, PROMPT, 5, size),
    step(0, [4, 6, 5]),
    step(0, [4, 6, 5], 1, { ids: [[9], [8], [7]] }),
    step(1, [5, 7, 6]),
    step(1, [5, 7, 6], 1, { ids: [[1], [2], [3]] }),
    step(0, [5, 7, 6], 2),
  ],
  'one sequence gets behind': [step(undefined, PROMPT, 5, size), step(0, [4, 6, 5]), step(1, [4, 7, 6]), step(2, [5, 8, 7]), step(3, [3, 9, 8])],
  'all as long, and then not': [step(undefined, [5, 5], 5, size), step(0, [6, 6]), step(1, [6, 7]), step(2, [7, 8]), step(3, [8, 8], 1)],
  'elements that are looked at and written': [
    step(undefined, PROMPT, 5, size),
    step(0, [4, 6, 5]),
    step(1, [5, 7, 6], 1, { looks: true }),
    step(2, [6, 8, 7], 1, { write: { name: 'present.0.value', at: 20, value: 40 } }),
    step(2, [6, 8, 7]),
  ],
});

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterAll(() => context.destroy());

const ours = (_, data, shape) => ({ data, shape });
const isKept = (tensor, property = 'data') => Object.getOwnPropertyDescriptor(tensor, property).get !== undefined;

function compare(found, expected, names = Object.keys(expected[0])) {
  found.forEach((results, i) => {
    for (const name of names) {
      const [own, other] = [results[name], expected[i][name]];
      expect(own.length).toBe(other.length);
      const worst = own.reduce((most, x, at) => Math.max(most, Math.abs(x - other[at])), 0);
      // NaN is no difference that is small.
      expect([i, name, worst < 2e-5 || worst]).toEqual([i, name, true]);
    }
  });
}

/** Counts the runs of steps meanwhile. */
async function countSteps(work) {
  const { runStep } = native;
  let count = 0;
  native.runStep = (...args) => (count++, runStep(...args));
  try {
    return [await work(), count];
  } finally {
    native.runStep = runStep;
  }
}

const cases = [];
for (const kind of ['GroupQueryAttention', 'genai']) {
  for (const [caches, size] of [['that grow', {}], ['of a fixed size', { size: 80 }]]) {
    for (const [what, steps] of Object.entries(scenarios(size))) cases.push({ kind, caches, what, steps });
  }
}

describe.each(cases)('$kind, caches $caches: $what', ({ kind, steps, caches }) => {
  /** Only a prompt of a fixed size is no step. */
  const expected = steps.length - Number(caches !== 'that grow' && new Set(steps[0].lengths).size > 1);

  test('run()', async () => {
    const model = await loadOnnx(context, decoder(kind));
    const [done, count] = await countSteps(() => runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours));
    expect(count).toBe(expected);
    const kept = Object.entries(done.at(-1).results).filter(([name]) => name.startsWith('present'));
    expect(kept.map(([, tensor]) => isKept(tensor))).toEqual(kept.map(() => true));
    // One with a seed is no step.
    const [single, none] = await countSteps(() => runSteps(model.inputs, steps, (feeds) => model.run(feeds, { seed: 1 }), ours));
    expect(none).toBe(0);
    compare(numbersOf(done), numbersOf(single));
    model.destroy();
  });

  test('a session', async () => {
    const session = await ort.InferenceSession.create(decoder(kind), { executionProviders: ['cpu'] });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const [done, count] = await countSteps(() => runSteps(session.inputMetadata, steps, (feeds) => session.run(feeds), make));
    expect(count).toBe(expected);
    const kept = Object.entries(done.at(-1).results).filter(([name]) => name.startsWith('present'));
    expect(kept.map(([, tensor]) => isKept(tensor, 'cpuData'))).toEqual(kept.map(() => true));
    const model = await loadOnnx(context, decoder(kind));
    compare(numbersOf(done), numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds, { seed: 1 }), ours)));
    model.destroy();
    await session.release();
  });
});

test('tokens are those of onnxruntime', async () => {
  const kind = 'GroupQueryAttention';
  const steps = scenarios({})['a prompt and tokens, into the next rooms'];
  const [wanted] = expectedSteps([{ kind, steps }]);
  const model = await loadOnnx(context, decoder(kind));
  const done = numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours));
  // After the prompt, whose shorter sequences end with tokens that do not count.
  compare(done.slice(1), wanted.slice(1), ['logits']);
  model.destroy();
});

test('each sequence has what it has alone', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const steps = scenarios({})['a prompt and tokens, into the next rooms'];
  const together = numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours));
  for (const [sequence, first] of PROMPT.entries()) {
    const alone = steps.map(({ of, ids, lengths }, i) => ({ of, ids: [ids[sequence].slice(0, i === 0 ? first : undefined)], lengths: [lengths[sequence]] }));
    const found = numbersOf(await runSteps(model.inputs, alone, (feeds) => model.run(feeds), ours));
    const own = together.map(({ logits }) => ({ logits: logits.slice((sequence * logits.length) / PROMPT.length, ((sequence + 1) * logits.length) / PROMPT.length) }));
    compare(own.slice(1), found.slice(1), ['logits']);
  }
  model.destroy();
});

describe('from one past', () => {
  const steps = scenarios({})['branches, from one past and from an earlier one'];
  let model;
  let single;
  beforeAll(async () => {
    model = await loadOnnx(context, decoder('GroupQueryAttention'));
    single = numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds, { seed: 1 }), ours));
  });
  afterAll(() => model.destroy());

  test('runs at once are all right', async () => {
    const all = [];
    const run = async (feeds) => {
      const results = await Promise.all([1, 2, 3].map(() => model.run(feeds)));
      all.push(results.map((result) => ({ results: result })));
      return results[all.length % 3];
    };
    await runSteps(model.inputs, steps, run, ours);
    for (const at of [0, 1, 2]) compare(numbersOf(all.map((results) => results[at])), single);
  });

  test('a run that is cancelled leaves it as it was', async () => {
    let turns = 0;
    const run = async (feeds) => {
      const controller = new AbortController();
      const cancelled = model.run(feeds, { signal: controller.signal }).then(
        () => {},
        (error) => expect(error.message).toBe('enough'),
      );
      for (let turn = turns++; turn > 0; turn--) await new Promise(setImmediate);
      controller.abort(new Error('enough'));
      await cancelled;
      return model.run(feeds);
    };
    for (let round = 0; round < 3; round++) compare(numbersOf(await runSteps(model.inputs, steps, run, ours)), single);
  });
});

test('more sequences than a plan may have are computed as before', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const lengths = Array.from({ length: 33 }, (_, i) => 1 + (i % 3));
  const steps = [step(undefined, lengths, 3), ...chain(0, lengths, 2)];
  const [done, count] = await countSteps(() => runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours));
  // The prompt is one append.
  expect(count).toBeLessThan(steps.length);
  compare(numbersOf(done), numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds, { seed: 1 }), ours)));
  model.destroy();
});

test('a cache of a fixed size is written where it is read', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const steps = scenarios({ size: 20 })['a prompt and tokens, into the next rooms'].slice(0, 9);
  let runs = 0;
  const run = async (feeds) => {
    const pasts = Object.keys(feeds).filter((name) => name.startsWith('past'));
    const outputs = { logits: null, ...Object.fromEntries(pasts.map((name) => [presentOf(name), feeds[name].data])) };
    // What is after the filled rows is the caller's.
    if (runs++ === 3) outputs['present.0.key'][19 * 16] = 7;
    return model.run(feeds, { outputs });
  };
  const [done, count] = await countSteps(() => runSteps(model.inputs, steps, run, ours));
  expect(count).toBe(steps.length - 1);
  const single = numbersOf(await runSteps(model.inputs, steps, (feeds) => model.run(feeds, { seed: 1 }), ours));
  expect(done.at(-1).results['present.0.key'].data[19 * 16]).toBe(7);
  done.at(-1).results['present.0.key'].data[19 * 16] = 0;
  compare([numbersOf(done).at(-1)], [single.at(-1)]);
  model.destroy();
});
