'use strict';

// B7: how products of float32 may be computed.

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { ml, MLContext, MLGraphBuilder } = require('..');
const { NETWORKS, compute } = require('./fp-math/networks.js');
const { loadOnnx } = require('../lib/onnx.js');
const ort = require('../lib/onnxruntime.js');
const { decoder } = require('./generate/decoders.js');
const { tensor, writeModel } = require('./onnx/write.js');
const { seededNumbers } = require('./seeded-numbers.js');

const [ROWS, DEPTH, COLUMNS] = [64, 96, 80];

const left = seededNumbers(ROWS * DEPTH, 2, 1);
const right = seededNumbers(DEPTH * COLUMNS, 2, 2);
/** By element: the sum in double precision, and that of the magnitudes. */
const exact = Array.from({ length: ROWS * COLUMNS }, (_, i) => {
  const [row, column] = [Math.floor(i / COLUMNS), i % COLUMNS];
  const products = Array.from({ length: DEPTH }, (__, k) => left[row * DEPTH + k] * right[k * COLUMNS + column]);
  return { sum: products.reduce((a, b) => a + b), size: products.reduce((a, b) => a + Math.abs(b), 0) };
});

/** Of what is computed by way of bfloat16, and in float32. */
const BOUNDS = { bf16: 2 ** -7 + 2 ** -16 + (DEPTH + 2) * 2 ** -24, strict: (DEPTH + 2) * 2 ** -24 };

function expectWithin(found, bound) {
  exact.forEach(({ sum, size }, i) => expect(Math.abs(found[i] - sum)).toBeLessThanOrEqual(bound * size));
}

const model = writeModel({
  opset: 17,
  inputs: [{ name: 'a', type: 'float', shape: [ROWS, DEPTH] }],
  outputs: [{ name: 'c' }],
  initializers: [tensor('b', 'float', [DEPTH, COLUMNS], right)],
  nodes: [{ op: 'MatMul', name: 'product', inputs: ['a', 'b'], outputs: ['c'] }],
});

async function multiplied(context, options) {
  const loaded = await loadOnnx(context, model, options);
  const { c } = await loaded.run({ a: left });
  loaded.destroy();
  return c.data;
}

const contexts = {};
beforeAll(async () => {
  for (const fpMath of ['strict', 'bf16']) contexts[fpMath] = await ml.createContext({ deviceType: 'cpu', fpMath });
  contexts.default = await ml.createContext({ deviceType: 'cpu' });
});
afterAll(() => Object.values(contexts).forEach((context) => context.destroy()));

test('context.fpMath says what is in force, by default strict', () => {
  expect(contexts.default.fpMath).toBe('strict');
  expect(contexts.strict.fpMath).toBe('strict');
  expect(contexts.bf16.fpMath).toBe('bf16');
  expect(() => Object.getOwnPropertyDescriptor(MLContext.prototype, 'fpMath').get.call({})).toThrow(TypeError);
});

test.each([['bfloat16'], [''], [null], [true]])('%p is a TypeError', async (fpMath) => {
  await expect(ml.createContext({ fpMath })).rejects.toThrow(TypeError);
  await expect(loadOnnx(contexts.strict, model, { fpMath })).rejects.toThrow(/fpMath: found .*, allowed 'strict' or 'bf16'/);
});

test('graphs of a context, and results of float32 within the bound', async () => {
  for (const [name, context] of Object.entries(contexts)) {
    const builder = new MLGraphBuilder(context);
    const a = builder.input('a', { dataType: 'float32', shape: [ROWS, DEPTH] });
    const b = builder.constant({ dataType: 'float32', shape: [DEPTH, COLUMNS] }, right);
    const graph = await builder.build({ c: builder.matmul(a, b) });
    const { outputs } = await context.compute(graph, { a: left.slice() }, { c: new Float32Array(ROWS * COLUMNS) });
    expectWithin(outputs.c, name === 'bf16' ? BOUNDS.bf16 : BOUNDS.strict);
    graph.destroy();
  }
});

test('models have the context\'s, unless they are loaded with their own', async () => {
  const strict = await multiplied(contexts.strict, {});
  const rounded = await multiplied(contexts.bf16, {});
  expectWithin(strict, BOUNDS.strict);
  expectWithin(rounded, BOUNDS.bf16);
  expect(await multiplied(contexts.default, {})).toEqual(strict);
  expect(await multiplied(contexts.bf16, { fpMath: 'strict' })).toEqual(strict);
  expect(await multiplied(contexts.strict, { fpMath: 'bf16' })).toEqual(rounded);
});

test('sessions of webnn-node/onnxruntime have it as an option of the providers cpu and webnn', async () => {
  const strict = await multiplied(contexts.strict, {});
  const rounded = await multiplied(contexts.bf16, {});
  const of = async (executionProviders) => {
    const session = await ort.InferenceSession.create(model, { executionProviders });
    const { c } = await session.run({ a: new ort.Tensor('float32', left, [ROWS, DEPTH]) });
    await session.release();
    return c.data;
  };
  expect(await of(['cpu'])).toEqual(strict);
  expect(await of([{ name: 'cpu', fpMath: 'bf16' }])).toEqual(rounded);
  expect(await of([{ name: 'webnn', fpMath: 'bf16' }])).toEqual(rounded);
  expect(await of([{ name: 'webnn', context: contexts.bf16 }])).toEqual(rounded);
  await expect(of([{ name: 'webnn', fpMath: 'fast' }])).rejects.toThrow(TypeError);
});

test.each(['avx512', 'avx2', 'portable', 'reference'])('with the kernels for %s strict is by bits what it is without the option', (WEBNN_CPU) => {
  const program = path.join(__dirname, 'fp-math', 'networks.js');
  const { stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8', env: { ...process.env, WEBNN_CPU } });
  // A CPU without these instructions says so, and runs the portable kernels.
  expect(stderr.replace(/^webnn-node: WEBNN_CPU: .*no instruction set of this CPU.*\n/m, '')).toBe('');
  const strict = Object.fromEntries(Object.keys(NETWORKS).map((name) => [name, expect.objectContaining({ isStrict: true })]));
  expect(JSON.parse(stdout)).toEqual(strict);
});

test.each(Object.keys(NETWORKS))('%s: what bfloat16 changes stays small', async (name) => {
  const [strict, rounded] = [await compute(contexts.strict, name), await compute(contexts.bf16, name)];
  const size = Math.sqrt(strict.reduce((sum, x) => sum + x * x, 0));
  const error = Math.sqrt(strict.reduce((sum, x, i) => sum + (x - rounded[i]) ** 2, 0));
  // Each number is off by 2^-9 of itself or less on average; of some ten products after each other that is less than this.
  expect(error / size).toBeLessThan(0.02);
});

test('the command line refuses others', () => {
  const program = path.join(__dirname, '..', 'bin', 'webnn-node.js');
  const { status, stderr } = spawnSync(process.execPath, [program, 'run', 'none.onnx', '--fp-math', 'half'], { encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr).toContain('--fp-math half: expected strict or bf16');
});

test('steps of decoders are computed as other runs are', async () => {
  for (const fpMath of ['strict', 'bf16']) {
    const loaded = await loadOnnx(contexts[fpMath], decoder('concat'));
    const ids = BigInt64Array.from({ length: 40 }, (_, i) => BigInt((i * 7) % 40));
    const empty = { data: new Float32Array(0), shape: [1, 2, 0, 16] };
    const pasts = Object.fromEntries(loaded.inputs.filter(({ name }) => name.startsWith('past')).map(({ name }) => [name, empty]));
    const whole = (data) => ({ data, shape: [1, 40] });
    const feeds = { ...pasts, input_ids: whole(ids), position_ids: whole(ids), attention_mask: whole(new BigInt64Array(40).fill(1n)) };
    const step = await loaded.run(feeds);
    // A run with a seed is none.
    const other = await loaded.run(feeds, { seed: 1 });
    expect([fpMath, step.logits.data]).toEqual([fpMath, other.logits.data]);
    loaded.destroy();
  }
});
