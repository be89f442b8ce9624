'use strict';

// Decoders after run() and sessions on a GPU: caches stay on the device between runs, and are what the CPU's are.

const ort = require('../../lib/onnxruntime.js');
const { ml } = require('../../lib/index.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { decoder } = require('../generate/decoders.js');
const { presentOf, runSteps } = require('../generate/steps.js');
const { withContexts } = require('./contexts.js');

const ids = (count, seed) => [Array.from({ length: count }, (_, i) => (i * i * seed + 3 * i + seed) % 40)];
const step = (of, count, seed, more = {}) => ({ of, ids: ids(count, seed), ...more });
const chain = (first, count) => Array.from({ length: count }, (_, i) => step(first + i, 1, i + 2));

const SCENARIOS = {
  'a prompt and tokens': [step(undefined, 5, 3), ...chain(0, 6)],
  'pieces of a prompt': [step(undefined, 7, 3), step(0, 120, 5), step(1, 1, 2), step(2, 4, 9)],
  'branches, and two sequences in turn': [step(undefined, 6, 3), step(0, 1, 5), step(0, 1, 7), step(1, 1, 2), step(undefined, 3, 5), step(2, 1, 2), step(4, 1, 2), step(0, 3, 4)],
  'elements that are looked at and written between steps': [
    step(undefined, 6, 3),
    step(0, 1, 5, { looks: true }),
    step(1, 1, 7, { write: { name: 'present.0.value', at: 5, value: 40 } }),
    step(2, 1, 3, { write: { name: 'present.1.key', at: 0, value: -3 } }),
  ],
};
const OF_A_SIZE = {
  'caches of a fixed size': [step(undefined, 5, 3, { size: 40 }), ...chain(0, 4), step(2, 1, 7, { looks: true }), step(4, 3, 5)],
};
const CASES = [
  ...['concat', 'unmasked', 'GroupQueryAttention'].flatMap((kind) => Object.entries(SCENARIOS).map(([what, steps]) => ({ kind, what, steps }))),
  ...['GroupQueryAttention', 'TensorScatter'].flatMap((kind) => Object.entries(OF_A_SIZE).map(([what, steps]) => ({ kind, what, steps }))),
];

let cpu;
let gpu;
withContexts((first, second) => {
  [cpu, gpu] = [first, second];
});

const ours = (_, data, shape) => ({ data, shape });
const isUnread = (tensor, property = 'data') => Object.getOwnPropertyDescriptor(tensor, property).get !== undefined;
const caches = ({ results }) => Object.entries(results).filter(([name]) => name.startsWith('present')).map(([, tensor]) => tensor);

/** The largest difference, of numbers of which the largest is about 1. */
function compare(found, expected) {
  expect(found.length).toBe(expected.length);
  found.forEach(({ results }, i) => {
    for (const [name, { data, shape }] of Object.entries(results)) {
      const other = expected[i].results[name];
      expect([...(shape ?? results[name].dims)]).toEqual([...other.shape]);
      const worst = data.reduce((most, x, at) => Math.max(most, Math.abs(x - other.data[at])), 0);
      expect([i, name, worst < 2e-5]).toEqual([i, name, true]);
    }
  });
}

describe.each(CASES)('$kind: $what', ({ kind, steps }) => {
  test('run() and a session', async () => {
    if (!gpu) return;
    const [model, reference] = [await loadOnnx(gpu, decoder(kind)), await loadOnnx(cpu, decoder(kind))];
    const expected = await runSteps(reference.inputs, steps, (feeds) => reference.run(feeds), ours);
    const done = await runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours);
    expect(caches(done.at(-1)).map((tensor) => isUnread(tensor))).toEqual(caches(done.at(-1)).map(() => true));
    compare(done, expected);
    const session = await ort.InferenceSession.create(decoder(kind), { executionProviders: [{ name: 'webnn', context: gpu }] });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    const tensors = await runSteps(session.inputMetadata, steps, (feeds) => session.run(feeds), make);
    expect(caches(tensors.at(-1)).map((tensor) => isUnread(tensor, 'cpuData'))).toEqual(caches(tensors.at(-1)).map(() => true));
    compare(tensors, expected);
    await session.release();
    model.destroy();
    reference.destroy();
  }, 120_000);
});

test('sequences of different lengths are what they are on the CPU', async () => {
  if (!gpu) return;
  const tokens = (of, lengths, count, seed) => ({ of, lengths, ids: lengths.map((_, sequence) => ids(count, seed + sequence)[0]) });
  const steps = [tokens(undefined, [3, 5], 5, 3), tokens(0, [4, 6], 1, 5), tokens(1, [5, 7], 1, 2), tokens(2, [7, 9], 2, 4)];
  const [model, reference] = [await loadOnnx(gpu, decoder('GroupQueryAttention')), await loadOnnx(cpu, decoder('GroupQueryAttention'))];
  const expected = await runSteps(reference.inputs, steps, (feeds) => reference.run(feeds, { seed: 1 }), ours);
  compare(await runSteps(model.inputs, steps, (feeds) => model.run(feeds), ours), expected);
  model.destroy();
  reference.destroy();
}, 120_000);

test('results for tensors of the device are computed there', async () => {
  if (!gpu) return;
  const session = await ort.InferenceSession.create(decoder('concat'), { executionProviders: [{ name: 'webnn', context: gpu }], preferredOutputLocation: 'ml-tensor' });
  const make = (type, data, shape) => new ort.Tensor(type, data, shape);
  const [{ results }] = await runSteps(session.inputMetadata, [step(undefined, 5, 3)], (feeds) => session.run(feeds), make);
  expect(Object.values(results).map(({ location, mlTensor }) => [location, mlTensor.constructor.name])).toEqual(Object.values(results).map(() => ['ml-tensor', 'MLTensor']));
  await session.release();
}, 120_000);

test('bindings exchange caches', async () => {
  if (!gpu) return;
  const [model, reference] = [await loadOnnx(gpu, decoder('concat')), await loadOnnx(cpu, decoder('concat'))];
  const steps = SCENARIOS['a prompt and tokens'];
  const bindings = await model.createBindings();
  let isFirst = true;
  const run = async (feeds) => {
    for (const [name, value] of Object.entries(feeds)) {
      if (isFirst || !name.startsWith('past')) bindings.write(name, value);
      else bindings.swap(name, presentOf(name));
    }
    isFirst = false;
    bindings.dispatch();
    const read = Object.keys(feeds).filter((name) => name.startsWith('past')).map(presentOf).concat('logits');
    return Object.fromEntries(await Promise.all(read.map(async (name) => [name, await bindings.read(name)])));
  };
  compare(await runSteps(model.inputs, steps, run, ours), await runSteps(reference.inputs, steps, (feeds) => reference.run(feeds), ours));
  bindings.destroy();
  model.destroy();
  reference.destroy();
}, 120_000);

test('caches that nobody has looked at are gone with their context, and say so', async () => {
  if (!gpu) return;
  const context = await ml.createContext({ deviceType: 'gpu' });
  const model = await loadOnnx(context, decoder('concat'));
  const [{ results }] = await runSteps(model.inputs, [step(undefined, 5, 3)], (feeds) => model.run(feeds), ours);
  const read = results['present.0.key'].data.slice();
  model.destroy();
  // The model has gone, and its results are there.
  expect(results['present.1.key'].data.length).toBe(read.length);
  context.destroy();
  expect(() => results['present.0.value'].data).toThrow(expect.objectContaining({ name: 'OperationError', message: expect.stringContaining('the context was destroyed or lost') }));
  expect(results['present.0.key'].data).toEqual(read);
}, 120_000);
