'use strict';

// Decoders after run(), bindings and sessions of webnn-node/onnxruntime: results of caches that come back as pasts, compared with
// onnxruntime-node; what is copied, and when.

const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { setImmediate: nextRound } = require('node:timers/promises');
const { Worker } = require('node:worker_threads');
const ort = require('../../lib/onnxruntime.js');
const { ml } = require('../../lib/index.js');
const { OnnxTensor, loadOnnx } = require('../../lib/onnx.js');
const { KINDS, decoder } = require('../generate/decoders.js');
const native = require('../../lib/native.js');
const { unpackModels } = require('../transformers/models.js');
const { expectedSteps, numbersOf, pastsOf, presentOf, runSteps } = require('../generate/steps.js');

const ids = (count, seed) => [Array.from({ length: count }, (_, i) => (i * i * seed + 3 * i + seed) % 40)];
const step = (of, count, seed, more = {}) => ({ of, ids: ids(count, seed), ...more });
/** Steps of one token each, one after the other. */
const chain = (first, count) => Array.from({ length: count }, (_, i) => step(first + i, 1, i + 2));

const SCENARIOS = {
  'a prompt and tokens, into the next room': [step(undefined, 5, 3), ...chain(0, 70)],
  'pieces of a prompt': [step(undefined, 7, 3), step(0, 9, 5), step(1, 60, 7), step(2, 1, 2), step(3, 4, 9)],
  'a first token without a prompt': [step(undefined, 1, 3), ...chain(0, 3)],
  'branches, from one past and from an earlier one': [step(undefined, 6, 3), step(0, 1, 5), step(0, 1, 7), step(1, 1, 2), step(2, 1, 2), step(0, 3, 4), step(1, 2, 8)],
  'two sequences in turn': [step(undefined, 6, 3), step(undefined, 3, 5), step(0, 1, 2), step(1, 1, 2), step(2, 1, 4), step(3, 1, 4)],
  'elements that are looked at between steps': [step(undefined, 6, 3), step(0, 1, 5, { looks: true }), step(1, 1, 7), step(2, 1, 2, { looks: true }), step(0, 1, 2)],
  'elements that are written': [
    step(undefined, 6, 3),
    step(0, 1, 5),
    step(1, 1, 7, { write: { name: 'present.0.value', at: 5, value: 40 } }),
    step(1, 1, 7),
    step(2, 1, 3, { write: { name: 'present.1.key', at: 0, value: -3 } }),
  ],
};
/** A batch whose first sequence is shorter. */
const BATCH = [
  { ids: [[1, 2, 3, 4, 5], [7, 8, 9, 1, 2]], hidden: 2 },
  ...[0, 1, 2].map((of) => ({ of, ids: [[of + 3], [of + 9]], hidden: 2 })),
  { of: 1, ids: [[3, 4], [5, 6]], hidden: 2 },
];

let context;
const cases = KINDS.flatMap((kind) => Object.entries(SCENARIOS).map(([what, steps]) => ({ kind, what, steps })));
cases.push({ kind: 'MultiHeadAttention', what: 'a batch with a shorter sequence', steps: BATCH });
/** A batch of equal lengths, into the next room. */
const FULL = [{ ids: [[1, 2, 3, 4, 5], [7, 8, 9, 1, 2]] }, ...Array.from({ length: 66 }, (_, of) => ({ of, ids: [[of % 37 + 3], [(of * 5) % 31]] }))];
for (const kind of ['GroupQueryAttention', 'genai']) cases.push({ kind, what: 'a batch', steps: FULL });
/** Into caches of a fixed size; with tokens that are taken back, branches, and a size that is full in the end. */
const OF_A_SIZE = {
  'caches of a fixed size': [step(undefined, 5, 3, { size: 90 }), ...chain(0, 70)],
  'pieces of a prompt in caches of a fixed size': [step(undefined, 7, 3, { size: 80 }), step(0, 9, 5), step(1, 60, 7), step(2, 1, 2), step(3, 3, 4)],
  'branches of caches of a fixed size': [step(undefined, 6, 3, { size: 70 }), step(0, 1, 5), step(0, 1, 7), step(1, 1, 2), step(2, 1, 2), step(0, 3, 4), step(1, 2, 8)],
  'tokens that are taken back': [step(undefined, 6, 3, { size: 64 }), step(0, 3, 5), step(1, 1, 7, { back: 2 }), step(2, 2, 7), step(1, 1, 9), step(3, 1, 9, { back: 5 })],
  'elements of caches of a fixed size that are looked at and written': [
    step(undefined, 6, 3, { size: 70 }),
    step(0, 1, 5, { looks: true }),
    step(1, 1, 7, { write: { name: 'present.0.value', at: 5, value: 40 } }),
    step(1, 1, 7),
    step(2, 1, 3, { write: { name: 'present.1.key', at: 0, value: -3 } }),
  ],
};
for (const kind of ['GroupQueryAttention', 'genai', 'TensorScatter']) {
  for (const [what, steps] of Object.entries(OF_A_SIZE)) cases.push({ kind, what, steps });
  cases.push({ kind, what: 'a batch in caches of a fixed size', steps: [{ ...FULL[0], size: 75 }, ...FULL.slice(1)] });
}
const TOKEN_BY_TOKEN = [step(undefined, 1, 3, { size: 48 }), ...chain(0, 30), step(20, 1, 7), step(30, 1, 2, { back: 4 })];
cases.push({ kind: 'TensorScatter', what: 'token by token', steps: TOKEN_BY_TOKEN });
let wanted;

beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  wanted = expectedSteps(cases);
});

afterAll(() => context.destroy());

function compare(found, expected) {
  found.forEach((results, i) => {
    expect(Object.keys(results).sort()).toEqual(Object.keys(expected[i]).sort());
    for (const [name, numbers] of Object.entries(results)) {
      expect(numbers.length).toBe(expected[i][name].length);
      const worst = numbers.reduce((most, x, at) => Math.max(most, Math.abs(x - expected[i][name][at])), 0);
      // NaN is no difference that is small.
      expect([i, name, worst < 2e-5]).toEqual([i, name, true]);
    }
  });
}

/** Whether nobody has looked at a tensor's elements. */
const isKept = (tensor, property = 'data') => Object.getOwnPropertyDescriptor(tensor, property).get !== undefined;
const ours = (_, data, shape) => ({ data, shape });

describe.each(cases.map((entry, i) => ({ ...entry, i })))('$kind: $what', ({ kind, steps, i }) => {
  test('run()', async () => {
    const model = await loadOnnx(context, decoder(kind));
    const done = await runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours);
    const caches = Object.entries(done.at(-1).results).filter(([name]) => name.startsWith('present'));
    expect(caches.map(([, tensor]) => isKept(tensor))).toEqual(caches.map(() => true));
    compare(numbersOf(done), wanted[i]);
    expect(caches.map(([, tensor]) => isKept(tensor))).toEqual(caches.map(() => false));
    model.destroy();
  });

  test('a session', async () => {
    const session = await ort.InferenceSession.create(decoder(kind), { executionProviders: ['cpu'] });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const done = await runSteps(session.inputMetadata, steps, (feeds) => session.run(feeds), make);
    const caches = Object.entries(done.at(-1).results).filter(([name]) => name.startsWith('present'));
    expect(caches.map(([, tensor]) => [tensor.location, isKept(tensor, 'cpuData')])).toEqual(caches.map(() => ['cpu', true]));
    compare(numbersOf(done), wanted[i]);
    await session.release();
  });

  for (const [location, member] of [['ml-tensor', 'mlTensorData'], ['gpu-buffer', 'gpuBufferData']]) {
    test(`a session with results kept as '${location}'`, async () => {
      const names = (await loadOnnx(context, decoder(kind))).outputs.map(({ name }) => name).filter((name) => name.startsWith('present'));
      const preferredOutputLocation = Object.fromEntries(names.map((name) => [name, location]));
      const session = await ort.InferenceSession.create(decoder(kind), { executionProviders: [{ name: 'webnn', context }], preferredOutputLocation });
      const make = (type, data, shape) => new ort.Tensor(type, data, shape);
      // What is not in memory can be neither looked at nor written there: the arrays of getData() can.
      const list = steps.map((entry) => ({ ...entry, looks: undefined, write: undefined }));
      const done = await runSteps(session.inputMetadata, list, (feeds) => session.run(feeds), make);
      const caches = Object.entries(done.at(-1).results).filter(([name]) => name.startsWith('present'));
      expect(caches.map(([, tensor]) => [tensor.location, isKept(tensor, member)])).toEqual(caches.map(() => [location, true]));
      const found = await Promise.all(done.map(async ({ results }) => {
        const read = Object.entries(results).map(async ([name, tensor]) => [name, Array.from(await tensor.getData())]);
        return Object.fromEntries(await Promise.all(read));
      }));
      if (!steps.some(({ write }) => write)) compare(found, wanted[i]);
      await session.release();
    });
  }
});

describe.each(['GroupQueryAttention', 'genai'])('%s: caches of a fixed size that are written where they are read', (kind) => {
  const steps = OF_A_SIZE['caches of a fixed size'].slice(0, 12);
  const expected = () => wanted[cases.findIndex((entry) => entry.kind === kind && entry.what === 'caches of a fixed size')].slice(0, steps.length);
  const outputsOf = (feeds, valueOf) => {
    const pasts = Object.keys(feeds).filter((name) => name.startsWith('past'));
    return { logits: null, ...Object.fromEntries(pasts.map((name) => [presentOf(name), valueOf(feeds[name])])) };
  };
  const numbers = (results) => Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, Array.from(data)]));

  test('arrays of run()', async () => {
    const model = await loadOnnx(context, decoder(kind));
    const found = [];
    const run = async (feeds) => {
      const outputs = outputsOf(feeds, ({ data }) => data);
      // What is after the filled rows is the caller's.
      if (found.length === 3) for (const name of Object.keys(outputs)) if (name !== 'logits') outputs[name][outputs[name].length - 1] = 7;
      const results = await model.run(feeds, { outputs });
      for (const [name, array] of Object.entries(outputs)) if (array !== null) expect(results[name].data).toBe(array);
      found.push(numbers(results));
      return results;
    };
    await runSteps(model.inputs, steps, run, ours);
    const list = expected().map((results, i) => Object.fromEntries(Object.entries(results).map(([name, all]) => [name, name !== 'logits' && i >= 3 ? all.with(-1, 7) : all])));
    compare(found, list);
    model.destroy();
  });

  test.each([true, false])('tensors of a session, looked at: %s', async (looks) => {
    const session = await ort.InferenceSession.create(decoder(kind), { executionProviders: ['cpu'] });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const found = [];
    const run = async (feeds) => {
      const fetches = looks || found.length > 0 ? outputsOf(feeds, (tensor) => tensor) : { logits: null, ...outputsOf(feeds, () => null) };
      const results = await session.run(feeds, fetches);
      for (const [name, tensor] of Object.entries(fetches)) if (tensor !== null) expect(results[name]).toBe(tensor);
      if (!looks) expect(Object.keys(fetches).filter((name) => isKept(results[name], 'cpuData'))).toEqual(Object.keys(fetches).filter((name) => name !== 'logits'));
      found.push(looks ? numbers(results) : { logits: Array.from(results.logits.data) });
      return results;
    };
    const done = await runSteps(session.inputMetadata, steps, run, make);
    compare(found, expected().map((results) => (looks ? results : { logits: results.logits })));
    compare([numbers(done.at(-1).results)], [expected().at(-1)]);
    await session.release();
  });
});

// Past and present must be one buffer for onnxruntime, which its package for Node.js does not give them: what it computes then are no attentions.
test.each([
  ['DecoderMaskedMultiHeadAttention', TOKEN_BY_TOKEN],
  ['shared MultiHeadAttention', TOKEN_BY_TOKEN],
  ['shared MultiHeadAttention', OF_A_SIZE['tokens that are taken back']],
])('what %s writes into is kept, with the results of single runs', async (kind, list) => {
  const model = await loadOnnx(context, decoder(kind));
  const { runStep } = native;
  let count = 0;
  native.runStep = (...args) => (count++, runStep(...args));
  try {
    const [steps, single] = [
      await runSteps(model.inputs, list, (feeds) => model.run(feeds), ours),
      // One with a seed is no step.
      await runSteps(model.inputs, list, (feeds) => model.run(feeds, { seed: 1 }), ours),
    ];
    expect(count).toBe(list.length);
    compare(numbersOf(steps), numbersOf(single));
  } finally {
    native.runStep = runStep;
    model.destroy();
  }
});

test('of a model whose sizes are all known the caches are kept too', async () => {
  const session = await ort.InferenceSession.create(decoder('TensorScatter'), {
    executionProviders: ['cpu'],
    freeDimensionOverrides: { batch_size: 1, sequence_length: 1, past_sequence_length: 48 },
  });
  expect(session.inputMetadata.flatMap(({ shape }) => shape).every((size) => typeof size === 'number')).toBe(true);
  const make = (type, data, shape) => new ort.Tensor(type, data, shape);
  const done = await runSteps(session.inputMetadata, TOKEN_BY_TOKEN, (feeds) => session.run(feeds), make);
  expect(isKept(done.at(-1).results['present.0.key'], 'cpuData')).toBe(true);
  compare(numbersOf(done), wanted[cases.findIndex(({ kind, what }) => kind === 'TensorScatter' && what === 'token by token')]);
  await session.release();
});

test('a total length between those of a cache that grows and of a fixed size is refused', async () => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const past = { data: new Float32Array(2 * 4 * 16), shape: [1, 2, 4, 16] };
  const feeds = (total, count) => ({
    ...Object.fromEntries(pastsOf(model.inputs).map(({ name }) => [name, past])),
    input_ids: { data: new BigInt64Array(count), shape: [1, count] },
    attention_mask: { data: new BigInt64Array(total).fill(1n), shape: [1, total] },
  });
  await expect(model.run(feeds(5, 2))).rejects.toThrow('total_sequence_length is 5 for 4 past and 2 new keys, allowed 6, or up to 4');
  await expect(model.run(feeds(7, 2))).rejects.toThrow('total_sequence_length is 7');
  for (const total of [4, 6]) await model.run(feeds(total, 2));
  model.destroy();
});

test('a tensor on the device that nobody has asked for takes an output', async () => {
  const owner = await ml.createContext({ accelerated: false });
  const session = await ort.InferenceSession.create(decoder('GroupQueryAttention'), { executionProviders: [{ name: 'webnn', context: owner }], preferredOutputLocation: 'ml-tensor' });
  const make = (type, data, shape) => new ort.Tensor(type, data, shape);
  const [prompt, next] = [step(undefined, 6, 3, { size: 32 }), step(0, 1, 5)];
  let count = 0;
  const run = async (feeds) => {
    const fetches = { logits: null, 'present.0.key': count === 0 ? null : feeds['past_key_values.0.key'], 'present.1.value': null };
    count++;
    return { 'present.0.value': feeds['past_key_values.0.value'], 'present.1.key': feeds['past_key_values.1.key'], ...(await session.run(feeds, fetches)) };
  };
  const done = await runSteps(session.inputMetadata, [prompt, next], run, make);
  expect(done[1].results['present.0.key']).toBe(done[0].results['present.0.key']);
  const numbers = Array.from(new Float32Array(await owner.readTensor(done[1].results['present.0.key'].mlTensor)));
  const all = await runSteps(session.inputMetadata, [prompt], (feeds) => session.run(feeds), make);
  // The prompt's rows are there still.
  const ofPrompt = Array.from(await all[0].results['present.0.key'].getData());
  expect(numbers.slice(0, 6 * 16)).toEqual(ofPrompt.slice(0, 6 * 16));
  expect(numbers.slice(6 * 16, 7 * 16).some((number) => number !== 0)).toBe(true);
  await session.release();
  owner.destroy();
});

test('sequences of a batch that differ in length are appended to where each ends', async () => {
  const unequal = BATCH.slice(0, 4);
  const [expected] = expectedSteps([{ kind: 'GroupQueryAttention', steps: unequal }]);
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const done = numbersOf(await runSteps(model.inputs, unequal, (feeds) => model.run(feeds), ours));
  // After the prompt, whose shorter sequence ends with tokens that do not count.
  const logits = (list) => list.slice(1).map((results) => ({ logits: results.logits }));
  compare(logits(done), logits(expected));
  model.destroy();
});

test('bindings exchange caches', async () => {
  const i = cases.findIndex(({ kind, what }) => kind === 'concat' && what.startsWith('a prompt and tokens'));
  const model = await loadOnnx(context, decoder('concat'));
  const bindings = await model.createBindings();
  const found = [];
  const run = async (feeds) => {
    for (const [name, value] of Object.entries(feeds)) {
      if (!name.startsWith('past')) bindings.write(name, value);
      else if (found.length === 0) bindings.write(name, value);
      else bindings.swap(name, presentOf(name));
    }
    bindings.dispatch();
    const names = ['logits', ...pastsOf(model.inputs).map(({ name }) => presentOf(name))];
    const read = await Promise.all(names.map((name) => bindings.read(name)));
    found.push(read);
    return Object.fromEntries(names.map((name, at) => [name, read[at]]));
  };
  compare(numbersOf(await runSteps(model.inputs, cases[i].steps, run, ours)), wanted[i]);
  bindings.destroy();
  model.destroy();
});

describe('what is kept', () => {
  let model;
  let first;
  const token = (of, at) => Object.fromEntries(pastsOf(model.inputs).map(({ name }) => [name, of[presentOf(name)]]).concat([
    ['input_ids', { data: BigInt64Array.of(BigInt(at)), shape: [1, 1] }],
    ['position_ids', { data: BigInt64Array.of(6n), shape: [1, 1] }],
  ]));

  beforeAll(async () => {
    model = await loadOnnx(context, decoder('unmasked'));
    [{ results: first }] = await runSteps(model.inputs, [step(undefined, 6, 3)], (feeds) => model.run(feeds), ours);
  });

  afterAll(() => model.destroy());

  test('runs at once from one past are all right', async () => {
    const results = await Promise.all([1, 2, 3, 1].map((at) => model.run(token(first, at))));
    expect(Array.from(results[3].logits.data)).toEqual(Array.from(results[0].logits.data));
    expect(Array.from(results[1].logits.data)).not.toEqual(Array.from(results[0].logits.data));
    const rows = (result) => Array.from(result['present.0.key'].data);
    expect(rows(results[3])).toEqual(rows(results[0]));
    expect(rows(results[1])).not.toEqual(rows(results[0]));
  });

  test('only the outputs that are wanted come, and the caches go on', async () => {
    const { logits, ...others } = await model.run(token(first, 4), { outputs: ['logits'] });
    expect(others).toEqual({});
    const all = await model.run(token(first, 4));
    expect(Array.from(all.logits.data)).toEqual(Array.from(logits.data));
    const [next, again] = [await model.run(token(all, 5)), await model.run(token(await model.run(token(first, 4)), 5))];
    expect(Array.from(next.logits.data)).toEqual(Array.from(again.logits.data));
  });

  test('tensors are OnnxTensors; what is given another shape, or set, counts as it is', async () => {
    const { 'present.0.key': key, 'present.0.value': value } = await model.run(token(first, 4));
    expect(key).toBeInstanceOf(OnnxTensor);
    expect([key.dataType, key.shape, key.dims, Object.keys(key)]).toEqual(['float32', [1, 2, 7, 16], [1, 2, 7, 16], ['dataType', 'data', 'shape']]);
    const copy = structuredClone(value);
    expect(Array.from(copy.data)).toEqual(Array.from(value.data));
    key.shape = [1, 2, 16, 7];
    expect(key.data.length).toBe(224);
    const zeros = new Float32Array(192);
    const results = await model.run(token(first, 4));
    const changed = { ...first };
    for (const { name } of pastsOf(model.inputs)) changed[presentOf(name)] = new OnnxTensor('float32', zeros, [1, 2, 6, 16]);
    expect(Array.from((await model.run(token(changed, 4))).logits.data)).not.toEqual(Array.from(results.logits.data));
  });

  test('a past of another length than the others is refused by its dimension', async () => {
    const next = await model.run(token(first, 4));
    const mixed = { ...token(first, 4), 'past_key_values.1.key': next['present.1.key'] };
    await expect(model.run(mixed)).rejects.toThrow('past_sequence_length');
  });

  test('results stay when the model and the context are gone, and memory is freed when they are dropped', async () => {
    const other = await ml.createContext({ accelerated: false });
    const short = await loadOnnx(other, decoder('unmasked'));
    const before = (await context.memoryUsage()).caches;
    const done = await runSteps(short.inputs, [step(undefined, 6, 3), ...chain(0, 3)], (feeds) => short.run(feeds), ours);
    expect((await other.memoryUsage()).caches).toBeGreaterThan(0);
    // It may be less: of other tests' results some may be collected meanwhile.
    expect((await context.memoryUsage()).caches).toBeLessThanOrEqual(before);
    short.destroy();
    other.destroy();
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
    const [{ results: same }] = await runSteps(model.inputs, [step(undefined, 6, 3)], (feeds) => model.run(feeds), ours);
    for (const name of Object.keys(same)) expect(Array.from(done[0].results[name].data)).toEqual(Array.from(same[name].data));
  });

  test('a session lets go of what is disposed of', async () => {
    const owner = await ml.createContext({ accelerated: false });
    const session = await ort.InferenceSession.create(decoder('unmasked'), { executionProviders: [{ name: 'webnn', context: owner }] });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const [{ results }] = await runSteps(session.inputMetadata, [step(undefined, 6, 3)], (feeds) => session.run(feeds), make);
    const tensors = async () => (await owner.memoryUsage()).caches;
    expect(await tensors()).toBeGreaterThan(0);
    for (const tensor of Object.values(results)) tensor.dispose();
    // A thread of the run may still hold on to them when its results have come; where they stay, the test takes longer than it may.
    while ((await tensors()) !== 0) await nextRound();
    expect(() => results['present.0.key'].data).toThrow('disposed');
    owner.destroy();
  });

  test.each([['ml-tensor', 'mlTensor'], ['gpu-buffer', 'gpuBuffer']])('as %s: an MLTensor when somebody asks, and what is downloaded counts', async (location, member) => {
    const owner = await ml.createContext({ accelerated: false });
    const session = await ort.InferenceSession.create(decoder('unmasked'), { executionProviders: [{ name: 'webnn', context: owner }], preferredOutputLocation: location });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const [{ results }] = await runSteps(session.inputMetadata, [step(undefined, 6, 3)], (feeds) => session.run(feeds), make);
    expect([results.logits.location, isKept(results.logits, `${member}Data`)]).toEqual([location, false]);
    const feeds = () => Object.fromEntries(Object.entries(token(results, 4)).map(([name, value]) => [name, value instanceof ort.Tensor ? value : make('int64', value.data, value.shape)]));
    const logits = async (of) => Array.from(await (await session.run(of)).logits.getData());
    const expected = await logits(feeds());
    // As an MLTensor it has the elements, and they can be fed from there.
    const key = results['present.0.key'];
    const numbers = Array.from(new Float32Array(await owner.readTensor(key[member])));
    expect(isKept(key, `${member}Data`)).toBe(false);
    expect(await logits(feeds())).toEqual(expected);
    // Another program's tensor takes a result.
    const into = await owner.createTensor({ dataType: 'float32', shape: results.logits.dims.with(1, 1), readable: true, writable: true });
    const target = ort.Tensor.fromMLTensor(into, { dataType: 'float32', dims: [...into.shape] });
    const { logits: same } = await session.run(feeds(), { logits: target });
    expect(same).toBe(target);
    expect(Array.from(new Float32Array(await owner.readTensor(into)))).toEqual(expected);
    const value = results['present.0.value'];
    const array = await value.getData();
    expect([value.location, array.length]).toEqual(['cpu', numbers.length]);
    array.fill(3);
    expect(await logits(feeds())).not.toEqual(expected);
    for (const tensor of Object.values(results)) tensor.dispose();
    expect(() => key[member]).toThrow('disposed');
    await session.release();
    owner.destroy();
  });
});

describe('plans', () => {
  const folder = unpackModels();
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  // As the exporters of Optimum and of transformers.js write them, whose masks are made of sizes.
  test.each(['llama', 'gpt2'])('a generation of %s makes a few, which serve rooms of lengths', async (name) => {
    const session = await ort.InferenceSession.create(path.join(folder, name, 'onnx', 'model.onnx'));
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const { prepareStep, runStep } = native;
    const counts = { plans: 0, steps: 0 };
    native.prepareStep = (...args) => (counts.plans++, prepareStep(...args));
    native.runStep = (...args) => (counts.steps++, runStep(...args));
    try {
      const { inputMetadata: inputs, inputNames: names } = session;
      const pasts = inputs.filter(({ name: input }) => input.startsWith('past'));
      let past = Object.fromEntries(pasts.map(({ name: input, shape }) => [input, make('float32', new Float32Array(0), [1, shape[1], 0, shape[3]])]));
      for (let at = 0, count = 5; at < 29; at += count, count = 1) {
        const whole = (numbers) => make('int64', BigInt64Array.from(numbers, BigInt), [1, numbers.length]);
        const all = {
          input_ids: whole(Array.from({ length: count }, (_, i) => (at + i) % 9 + 3)),
          attention_mask: whole(new Array(at + count).fill(1)),
          position_ids: whole(Array.from({ length: count }, (_, i) => at + i)),
        };
        const given = Object.fromEntries(Object.entries(all).filter(([input]) => names.includes(input)));
        const results = await session.run({ ...given, ...past });
        past = Object.fromEntries(pasts.map(({ name: input }) => [input, results[presentOf(input)]]));
      }
    } finally {
      Object.assign(native, { prepareStep, runStep });
    }
    expect(counts.steps).toBe(25);
    // For the prompt, the first room, and what is tried before it.
    expect(counts.plans).toBeLessThanOrEqual(4);
    await session.release();
  });
});

test('a worker may end with caches that nobody dropped, and its results come here as arrays', async () => {
  const i = cases.findIndex(({ kind, what }) => kind === 'unmasked' && what === 'two sequences in turn');
  const at = (file) => JSON.stringify(path.join(__dirname, '..', '..', file));
  const script = `
    const { parentPort } = require('node:worker_threads');
    const { ml } = require(${at('lib/index.js')});
    const { loadOnnx } = require(${at('lib/onnx.js')});
    const { decoder } = require(${at('__tests__/generate/decoders.js')});
    const { runSteps } = require(${at('__tests__/generate/steps.js')});
    (async () => {
      const model = await loadOnnx(await ml.createContext({ accelerated: false }), decoder('unmasked'));
      const steps = ${JSON.stringify(cases[i].steps)};
      const done = await runSteps(model.inputs, steps, (feeds) => model.run(feeds), (_, data, shape) => ({ data, shape }));
      parentPort.postMessage(done.at(-1).results['present.1.value']);
    })();`;
  const worker = new Worker(script, { eval: true });
  // It may end in the turn in which its message comes.
  const exit = once(worker, 'exit');
  const [tensor] = await once(worker, 'message');
  await exit;
  compare([{ 'present.1.value': Array.from(tensor.data) }], [{ 'present.1.value': wanted[i].at(-1)['present.1.value'] }]);
});
