'use strict';

// model.profile(): the steps of runs, and the trace of them.

const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('./write.js');

const bytes = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: [64, 96] }],
  outputs: [{ name: 'y' }],
  initializers: [tensor('w', 'float', [96, 32], new Float32Array(96 * 32).fill(0.5))],
  nodes: [
    { op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['p'] },
    { op: 'Relu', name: 'positive', inputs: ['p'], outputs: ['q'] },
    { op: 'Softmax', name: 'shares', inputs: ['q'], outputs: ['y'] },
  ],
});

test('a profile has the steps of the runs between its begin and its end', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, bytes);
  const x = new Float32Array(64 * 96).fill(1);
  await model.run({ x });
  const profile = model.profile();
  const before = performance.now();
  await Promise.all([model.run({ x }), model.run({ x })]);
  profile.stop();
  await model.run({ x });
  expect(profile.runs).toHaveLength(2);
  for (const { began, ms, steps } of profile.runs) {
    expect(began).toBeGreaterThanOrEqual(before);
    // What is fused is named, although the kernel has taken it.
    expect(steps.map(({ text }) => text)).toEqual(['matmul + relu [64,96] [96,32] -> [64,32] "product"', 'softmax [64,32] -> [64,32] "shares"']);
    expect(steps[0]).toMatchObject({ operator: 'matmul', label: 'product', multiplications: 64 * 96 * 32, bytes: 4 * (64 * 96 + 96 * 32 + 64 * 32) });
    expect(steps.map(({ implementation }) => implementation)).toEqual([expect.stringMatching(/^(gemm\.|reference)/), expect.any(String)]);
    expect(steps[0].began).toBeGreaterThanOrEqual(0);
    expect(steps[1].began).toBeGreaterThanOrEqual(steps[0].began + steps[0].ms);
    expect(steps[1].began + steps[1].ms).toBeLessThanOrEqual(ms + 1);
  }
  const { traceEvents } = JSON.parse(JSON.stringify(profile));
  expect(traceEvents.map(({ name }) => name)).toEqual(['run', 'matmul', 'softmax', 'run', 'matmul', 'softmax']);
  expect(new Set(traceEvents.map(({ tid }) => tid)).size).toBe(2);
  for (const { ph, ts, dur } of traceEvents) expect([ph, ts > 0, dur > 0]).toEqual(['X', true, true]);
  // The next profile begins anew; that of before is over.
  const next = model.profile();
  profile.stop();
  await model.run({ x });
  expect([profile.runs.length, next.runs.length]).toEqual([2, 1]);
  model.destroy();
  context.destroy();
});

describe('the steps of bindings', () => {
  const open = { opset: 17, outputs: [{ name: 'y' }], initializers: [tensor('w', 'float', [4, 4], new Float32Array(16).fill(1))], nodes: [{ op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['y'] }] };

  test.each([[2], ['n']])('of a model of [%s, 4] are profiled', async (rows) => {
    const context = await ml.createContext({ deviceType: 'cpu' });
    const model = await loadOnnx(context, writeModel({ ...open, inputs: [{ name: 'x', type: 'float', shape: [rows, 4] }] }));
    const bindings = await model.createBindings(rows === 'n' ? { inputs: { x: { data: new Float32Array(8).fill(1), shape: [2, 4] } } } : {});
    if (rows !== 'n') bindings.write('x', new Float32Array(8).fill(1));
    bindings.dispatch();
    const profile = model.profile();
    bindings.dispatch();
    expect([...(await bindings.read('y')).data]).toEqual(Array(8).fill(4));
    // Of a graph the steps are there in another turn.
    for (let i = 0; i < 100 && profile.runs.length === 0; i++) await new Promise((resolve) => { setTimeout(resolve, 10); });
    profile.stop();
    bindings.dispatch();
    await bindings.read('y');
    expect(profile.runs.map(({ steps }) => steps.map(({ label }) => label))).toEqual([['product']]);
    context.destroy();
  });
});

test('the steps of a split model are profiled, with the part that each is of', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const nodes = [
    { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
    { op: 'NonZero', name: 'cut', inputs: ['a'], outputs: ['i'] },
    { op: 'Cast', name: 'cast', inputs: ['i'], outputs: ['f'], attributes: { to: 1 } },
    { op: 'Sqrt', name: 'last', inputs: ['f'], outputs: ['y'] },
  ];
  const model = await loadOnnx(context, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [4] }], outputs: [{ name: 'y' }], nodes }));
  const x = Float32Array.of(0, 1, 0, 4);
  await model.run({ x });
  const profile = model.profile();
  await model.run({ x });
  const { steps } = profile.runs[0];
  expect(steps.map(({ label }) => label)).toEqual(expect.arrayContaining(['first', 'last']));
  const of = (wanted) => steps.find(({ label }) => label === wanted);
  expect(of('first').part).toBeLessThan(of('last').part);
  // What is computed between the parts is there, in its place.
  const cut = of('cut');
  expect(cut).toMatchObject({ operator: 'NonZero', implementation: 'between parts', text: 'NonZero [4] -> [1,2] "cut"', dataType: 'float32', multiplications: 0, bytes: 4 * 4 + 2 * 8, sources: [] });
  expect([cut.part > of('first').part, cut.part < of('last').part]).toEqual([true, true]);
  expect(cut.began).toBeGreaterThanOrEqual(of('first').began + of('first').ms);
  expect(cut.began + cut.ms).toBeLessThanOrEqual(of('last').began);
  expect(cut.thread).toMatch(/^webnn /);
  context.destroy();
});

const values = (name, type, shape) => ({ name, type, shape });
test.each([
  ['Unique', { inputs: [values('x', 'float', [6])], nodes: [{ op: 'Unique', name: 'n', inputs: ['x'], outputs: ['y'] }] }],
  ['NonZero', { inputs: [values('x', 'float', [6]), values('c', 'bool', [6])], nodes: [{ op: 'Compress', name: 'n', inputs: ['x', 'c'], outputs: ['y'] }] }],
  ['RandomUniform', { inputs: [values('x', 'float', [6])], nodes: [{ op: 'RandomUniform', name: 'n', inputs: [], outputs: ['r'], attributes: { shape: [6] } }, { op: 'Add', name: 'sum', inputs: ['x', 'r'], outputs: ['y'] }] }],
  ['Multinomial', { inputs: [values('x', 'float', [1, 6])], nodes: [{ op: 'Multinomial', name: 'n', inputs: ['x'], outputs: ['y'], attributes: { sample_size: 3 } }] }],
])('%s between the parts of a model is in its profile', async (operator, { inputs, nodes }) => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, writeModel({ opset: 17, inputs, outputs: [{ name: 'y' }], nodes }));
  const profile = model.profile();
  const given = { x: Float32Array.of(3, 1, 3, 0, 1, 2), c: Uint8Array.of(1, 0, 1, 0, 0, 1) };
  await model.run(Object.fromEntries(inputs.map(({ name }) => [name, given[name]])));
  expect(profile.runs[0].steps.filter(({ implementation }) => implementation === 'between parts').map((step) => step.operator)).toEqual([operator]);
  context.destroy();
});
