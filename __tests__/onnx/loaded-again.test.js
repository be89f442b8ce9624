'use strict';

// A model that is loaded again, while the first one is there: it is read, imported, hashed, packed and compiled once.

const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: timeout } = require('node:timers/promises');
const { Worker } = require('node:worker_threads');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('./write.js');

const SIZE = 256;
const BYTES = 4 * SIZE * SIZE;
const feeds = { x: Float32Array.from({ length: SIZE }, (_, i) => Math.cos(i)) };

/** A product and a sum: the product's weights are packed, the sum's constant is read as it is. */
function bytesOf(factor, { rows = 1 } = {}) {
  const weights = Float32Array.from({ length: SIZE * SIZE }, (_, k) => (factor * Math.sin(k)) / SIZE);
  return writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: [rows, SIZE] }],
    outputs: [{ name: 'y' }],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['product'] },
      { op: 'Add', inputs: ['product', 'c'], outputs: ['y'] },
    ],
    initializers: [tensor('w', 'float', [SIZE, SIZE], weights), tensor('c', 'float', [1, SIZE], weights.subarray(0, SIZE))],
  });
}

let folder;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-again-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const contexts = [];
afterEach(() => contexts.splice(0).forEach((context) => context.destroy()));

async function load(source, options = {}, ofContext = {}) {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1, ...ofContext });
  contexts.push(context);
  const model = await loadOnnx(context, source, options);
  return { context, model, y: (await model.run(feeds)).y.data, ofModel: model.memoryUsage() };
}

/** What a model holds of its own beside the memory of runs; whatever is compiled is a plan. */
const own = ({ packed, mapped, constants, plans }) => ({ packed, mapped, constants, plans });
const NOTHING = { packed: 0, mapped: 0, constants: 0, plans: 0 };

/** Elsewhere a change of a file may not show, so its plans are not shared. */
const ofFiles = process.platform === 'win32' ? test.skip : test;

describe.each(['file', 'bytes', 'mapped file', 'open size'])('%s', (how) => {
  const test = how === 'bytes' ? globalThis.test : ofFiles;
  const open = how === 'open size' ? { rows: 'N' } : {};
  const options = how === 'mapped file' ? { map: true } : {};
  let source;
  let number = 0;
  beforeEach(() => {
    const bytes = bytesOf(++number, open);
    source = how === 'bytes' ? bytes : path.join(folder, `${how} ${number}.onnx`);
    if (how !== 'bytes') writeFileSync(source, bytes);
  });

  test('the second load has all that the first one has made', async () => {
    const [first, second] = [await load(source, options), await load(source, options)];
    const { packed, mapped, constants, plans } = first.ofModel;
    expect(packed).toBeGreaterThanOrEqual(BYTES);
    expect(plans).toBeGreaterThan(0);
    expect({ ...own(second.ofModel), shared: second.ofModel.shared }).toEqual({ ...NOTHING, shared: packed + mapped + constants + plans });
    expect(second.y).toEqual(first.y);
  });

  test('what was made goes with the last one, at once', async () => {
    const [first, second] = [await load(source, options), await load(source, options)];
    first.context.destroy();
    expect((await second.model.run(feeds)).y.data).toEqual(first.y);
    const third = await load(source, options);
    expect(own(third.ofModel)).toEqual(NOTHING);
    // One by its context, one by itself.
    second.context.destroy();
    third.model.destroy();
    while (third.context.memoryUsage().shared > 0) await new Promise(setImmediate);
    // A context that was destroyed ends on a thread of its own, which may have its part a little longer.
    let fourth = await load(source, options);
    while (fourth.ofModel.shared > 0) {
      fourth.context.destroy();
      await timeout(20);
      fourth = await load(source, options);
    }
    expect(own(fourth.ofModel)).toEqual(own(first.ofModel));
    expect(fourth.y).toEqual(first.y);
  });

  test('runs of both at once', async () => {
    const both = [await load(source, options), await load(source, options)];
    const run = async ({ model, y }) => {
      for (let i = 0; i < 20; i++) expect((await model.run(feeds)).y.data).toEqual(y);
    };
    await Promise.all(both.map(run));
  });
});

test('a file that has changed meanwhile is another model', async () => {
  const file = path.join(folder, 'changed.onnx');
  writeFileSync(file, bytesOf(1));
  const first = await load(file);
  writeFileSync(file, bytesOf(2));
  const second = await load(file);
  expect(second.ofModel).toMatchObject({ shared: 0 });
  expect(Array.from(second.y)).not.toEqual(Array.from(first.y));
  expect(Array.from(second.y)).toEqual(Array.from((await load(bytesOf(2))).y));
  // With the content that it had, it is the first one again, as bytes are.
  writeFileSync(file, bytesOf(1));
  expect(Array.from((await load(file)).y)).toEqual(Array.from(first.y));
});

ofFiles('external data that has changed meanwhile is other data', async () => {
  const file = path.join(folder, 'external.onnx');
  const data = path.join(folder, 'external.data');
  const numbers = (factor) => Float32Array.from({ length: SIZE * SIZE }, (_, k) => (factor * Math.sin(k)) / SIZE);
  const w = { name: 'w', dims: [SIZE, SIZE], dataType: 1, dataLocation: 1, externalData: [{ key: 'location', value: 'external.data' }] };
  const inputs = [{ name: 'x', type: 'float', shape: ['N', SIZE] }];
  writeFileSync(file, writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }], initializers: [w] }));
  writeFileSync(data, numbers(1));
  const [first, same] = [await load(file), await load(file)];
  expect(own(same.ofModel)).toEqual(NOTHING);
  writeFileSync(data, numbers(2));
  const second = await load(file);
  expect(second.ofModel).toMatchObject({ shared: 0 });
  second.y.forEach((y, i) => expect(y).toBeCloseTo(2 * first.y[i], 4));
});

test.each([
  ['other sizes', { freeDimensions: { N: 2 } }, {}],
  ['another way to compute', { fpMath: 'bf16' }, {}],
  ['another number of threads', {}, { numThreads: 2 }],
  ['other constants', { constants: { x: Float32Array.from({ length: SIZE }, () => 1) }, freeDimensions: { N: 1 } }, {}],
])('%s have plans of their own', async (_, options, ofContext) => {
  const file = path.join(folder, 'settings.onnx');
  writeFileSync(file, bytesOf(7, { rows: 'N' }));
  const context = async (of) => {
    const made = await ml.createContext({ deviceType: 'cpu', numThreads: 1, ...of });
    contexts.push(made);
    return made;
  };
  const first = await loadOnnx(await context({}), file, { freeDimensions: { N: 1 } });
  await first.run(feeds);
  const second = await loadOnnx(await context(ofContext), file, { freeDimensions: { N: 1 }, ...options });
  const x = new Float32Array((options.freeDimensions?.N ?? 1) * SIZE);
  await second.run('constants' in options ? {} : { x });
  expect(second.memoryUsage().plans).toBeGreaterThan(0);
});

ofFiles('workers have it from each other', async () => {
  const file = path.join(folder, 'worker.onnx');
  writeFileSync(file, bytesOf(9));
  const first = await load(file);
  const program = `
    const { parentPort, workerData: { root, file, x } } = require('node:worker_threads');
    const { ml } = require(root);
    const { loadOnnx } = require(root + '/lib/onnx.js');
    (async () => {
      const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1 });
      const model = await loadOnnx(context, file);
      parentPort.postMessage({ y: (await model.run({ x })).y.data, usage: model.memoryUsage() });
    })();`;
  const worker = new Worker(program, { eval: true, workerData: { root: path.join(__dirname, '..', '..'), file, x: feeds.x } });
  const { y, usage } = await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  await worker.terminate();
  expect(own(usage)).toEqual(NOTHING);
  expect(Array.from(y)).toEqual(Array.from(first.y));
  expect((await first.model.run(feeds)).y.data).toEqual(first.y);
});
