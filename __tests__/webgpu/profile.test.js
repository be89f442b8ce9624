/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// Steps on a GPUDevice that was made with the feature `timestamp-query`.

const { MLGraphBuilder } = require('../..');
const { generate } = require('../../lib/generate.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { TOKENS, decoder } = require('../generate/decoders.js');
const { tensor, writeModel } = require('../onnx/write.js');
const { adapter, newContext, onDevice } = require('./device.js');

const timed = { requiredFeatures: ['timestamp-query'] };

/** As {@link onDevice}, where the adapter tells times. */
const onTimed = (name, body) => onDevice(name, async () => {
  if (adapter.features.has('timestamp-query')) await body();
  else console.info('timestamps are not tested: the adapter has none');
});

const bytes = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: ['n', 16] }],
  outputs: [{ name: 'y' }],
  initializers: [tensor('w', 'float', [16, 8], new Float32Array(128).fill(0.5))],
  nodes: [
    { op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['p'] },
    { op: 'Softmax', name: 'shares', inputs: ['p'], outputs: ['y'] },
  ],
});
const x = { data: new Float32Array(64).fill(1), shape: [4, 16] };

async function profiled(context) {
  const model = await loadOnnx(context, bytes);
  const plain = await model.run({ x });
  const profile = model.profile();
  const found = await Promise.all([model.run({ x }), model.run({ x })]);
  const kept = await model.createBindings({ inputs: { x } });
  kept.dispatch();
  await kept.read('y');
  for (const { y } of found) expect([...y.data]).toEqual([...plain.y.data]);
  for (let i = 0; i < 100 && profile.runs.length < 3; i++) await new Promise((resolve) => { setTimeout(resolve, 10); });
  expect(profile.runs).toHaveLength(3);
  return profile.runs;
}

onTimed('runs have steps, in the order of their times', async () => {
  const { context } = await newContext(timed);
  for (const { ms, steps } of await profiled(context)) {
    expect(steps.map(({ operator, label, thread }) => [operator, label, thread])).toEqual([['matmul', 'product', 'GPU'], ['softmax', 'shares', 'GPU']]);
    expect(steps[0]).toMatchObject({ text: 'matmul [4,16] [16,8] -> [4,8] "product"', multiplications: 512, dataType: 'float32', implementation: expect.stringMatching(/./) });
    expect(steps.map(({ sources }) => sources)).toEqual([[], [0]]);
    expect([steps[0].began >= 0, steps[1].began >= steps[0].began, steps[1].began + steps[1].ms <= ms + 1]).toEqual([true, true, true]);
  }
});

/** What of twice the numbers is not 0. A run looks before it knows how much that is, so the model is split. */
const split = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: ['n'] }],
  outputs: [{ name: 'values' }],
  initializers: [tensor('two', 'float', [], Float32Array.of(2))],
  nodes: [
    { op: 'Mul', name: 'twice', inputs: ['x', 'two'], outputs: ['d'] },
    { op: 'NonZero', inputs: ['d'], outputs: ['places'] },
    { op: 'Transpose', inputs: ['places'], outputs: ['t'] },
    { op: 'GatherND', name: 'those', inputs: ['d', 't'], outputs: ['values'] },
  ],
});

onTimed('the parts of a model that is split', async () => {
  const { context } = await newContext(timed);
  const model = await loadOnnx(context, split);
  const profile = model.profile();
  const runs = [[1, 0, 3], [0, 5, 6, 0]].map((x) => model.run({ x: Float32Array.from(x) }));
  const [first, second] = await Promise.all(runs);
  expect([[...first.values.data], [...second.values.data]]).toEqual([[2, 6], [10, 12]]);
  profile.stop();
  await model.run({ x: Float32Array.of(1) });
  expect(profile.runs).toHaveLength(2);
  for (const { ms, steps } of profile.runs) {
    const [twice, those] = ['twice', 'those'].map((name) => steps.find(({ label }) => label === name));
    expect([twice.thread, twice.operator, those.thread, those.part > twice.part]).toEqual(['GPU', 'mul', 'GPU', true]);
    expect([twice, those].every((step) => step.began >= 0 && step.began + step.ms <= ms + 1)).toBe(true);
  }
});

onTimed('the steps of generate()', async () => {
  const { context } = await newContext(timed);
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const prompt = Array.from({ length: 9 }, (_, i) => (5 * i) % TOKENS);
  const ids = async () => {
    const found = [];
    for await (const { id } of generate(model, prompt, { maxNewTokens: 4 })) found.push(id);
    return found;
  };
  const profile = model.profile();
  const found = await ids();
  profile.stop();
  expect(await ids()).toEqual(found);
  expect(profile.runs).toHaveLength(4);
  for (const { ms, steps } of profile.runs) {
    expect(steps.length).toBeGreaterThan(5);
    expect(steps.every(({ thread, began, ms: length }) => thread === 'GPU' && began >= 0 && began + length <= ms + 1)).toBe(true);
    expect(steps.some(({ multiplications, text }) => multiplications > 0 && text.length > 0)).toBe(true);
  }
}, 300_000);

onTimed('graphs of script, and what a device is lost under', async () => {
  const { context, device } = await newContext(timed);
  const descriptor = { dataType: 'float32', shape: [4] };
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.input('x', descriptor)) });
  // Nobody wants steps: there is one pass, and nothing beside it.
  const result = await context.compute(graph, { x: Float32Array.of(-1, 2, -3, 4) }, { y: new Float32Array(4) });
  expect([...result.outputs.y]).toEqual([0, 2, 0, 4]);
  const model = await loadOnnx(context, bytes);
  const profile = model.profile();
  const run = model.run({ x }).catch((error) => error.name);
  device.destroy();
  expect(['InvalidStateError', 'OperationError', 'UnknownError']).toContain(await run);
  expect(profile.runs.every(({ steps }) => steps.length === 0)).toBe(true);
});

onDevice('a device without the feature tells no steps', async () => {
  const { context } = await newContext();
  expect((await profiled(context)).map(({ steps }) => steps.length)).toEqual([0, 0, 0]);
});
