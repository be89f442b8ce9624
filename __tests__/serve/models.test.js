'use strict';

// The models that a server finds, loads, swaps and unloads.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createServer } = require('@webnn-node/serve');
const { warmUp } = require('../../packages/serve/lib/warm-up.js');
const { encoder, texts } = require('../onnx/encoders.js');
const { writeModel } = require('../onnx/write.js');

const float = (name, ...shape) => ({ name, type: 'float', shape });
/** A model that adds x to itself, or multiplies it. */
const model = (op) => writeModel({ opset: 17, inputs: [float('x', 'n', 2)], outputs: [float('y', 'n', 2)], nodes: [{ op, inputs: ['x', 'x'], outputs: ['y'] }] });

let folder;
let server;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
  fs.writeFileSync(path.join(folder, 'double.onnx'), model('Add'));
  for (const [version, op] of [['1', 'Add'], ['2', 'Mul'], ['10', 'Sub']]) {
    fs.mkdirSync(path.join(folder, 'versions', version), { recursive: true });
    fs.writeFileSync(path.join(folder, 'versions', version, 'model.onnx'), model(op));
  }
  fs.mkdirSync(path.join(folder, '.hidden'));
  server = await createServer({ models: folder });
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

const run = async (name, options) => {
  const { y } = await server.registry.run(name, { x: { data: Float32Array.of(3, 5), shape: [1, 2] } }, options);
  return [...y.data];
};

test('are files, and folders with versions, of which the latest is the default', async () => {
  expect(server.registry.isReady).toBe(true);
  expect(await run('double')).toEqual([6, 10]);
  expect(await run('versions')).toEqual([0, 0]);
  expect(await run('versions', { version: '2' })).toEqual([9, 25]);
  expect(server.registry.versions('versions')).toEqual(['1', '2', '10']);
});

test('have no other names than those that were found', async () => {
  for (const name of ['../double', 'double.onnx', 'versions/1', '.hidden', '', '__proto__']) {
    await expect(run(name)).rejects.toMatchObject({ statusCode: 404 });
    await expect(server.registry.load(name)).rejects.toMatchObject({ statusCode: 404 });
  }
  await expect(run('versions', { version: '3' })).rejects.toMatchObject({ statusCode: 404 });
});

test('are swapped while they run, and no run is lost', async () => {
  let isOver = false;
  const counts = new Map();
  const caller = async () => {
    while (!isOver) {
      const key = String(await run('double'));
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  };
  const callers = Promise.all([caller(), caller(), caller()]);
  for (const op of ['Mul', 'Add', 'Mul']) {
    fs.writeFileSync(path.join(folder, 'double.onnx'), model(op));
    await server.registry.load('double');
    expect(await run('double')).toEqual(op === 'Mul' ? [9, 25] : [6, 10]);
  }
  isOver = true;
  await callers;
  expect([...counts.keys()].sort()).toEqual(['6,10', '9,25']);
});

test('are run once before they are served, with one row, if they take large pictures only', async () => {
  const tried = [];
  const picky = {
    inputs: [{ name: 'x', dataType: 'float32', shape: ['n', 3, 'h', 'w'] }],
    async run({ x: { shape } }) {
      tried.push(shape);
      if (shape[2] < 200) throw new Error('too small');
    },
  };
  await warmUp(picky);
  expect(tried.at(-1)).toEqual([1, 3, 224, 224]);
});

test('run with the priority of the request', async () => {
  const run = jest.spyOn(server.registry.get('double').onnx, 'run');
  const feeds = { x: { data: Float32Array.of(3, 5), shape: [1, 2] } };
  for (const priority of [undefined, 0, 1, 2, 3, 9]) await server.registry.run('double', feeds, { priority });
  expect(run.mock.calls.map(([, { priority }]) => priority)).toEqual([undefined, undefined, 'high', 'normal', 'low', 'low']);
  run.mockRestore();
});

test('stay as they are if the new file cannot be loaded', async () => {
  const before = await run('double');
  fs.writeFileSync(path.join(folder, 'double.onnx'), 'no model');
  await expect(server.registry.load('double')).rejects.toMatchObject({ statusCode: 400 });
  expect(await run('double')).toEqual(before);
});

test('get texts of different lengths together', async () => {
  fs.writeFileSync(path.join(folder, 'texts.onnx'), encoder({ end: 'mean' }));
  await server.registry.load('texts');
  const { onnx } = server.registry.get('texts');
  const run = (length) => server.registry.run('texts', texts(onnx.inputs, 1, length, length));
  const lengths = [9, 4, 6, 8, 5, 7];
  const alone = [];
  for (const length of lengths) alone.push((await run(length)).y.data);
  const together = await Promise.all(lengths.map(run));
  expect(onnx.batching.filled).toBeGreaterThan(3);
  for (const [i, { y }] of together.entries()) for (const [at, value] of y.data.entries()) expect(Math.abs(value - alone[i][at])).toBeLessThan(2e-5);
  await server.registry.unload('texts');
  fs.rmSync(path.join(folder, 'texts.onnx'));
});

test('are listed with their states', async () => {
  await server.registry.unload('versions');
  await expect(run('versions')).rejects.toMatchObject({ statusCode: 404 });
  const list = await server.registry.list();
  expect(list.map(({ name, version, state }) => [name, version, state])).toEqual([
    ['double', '1', 'READY'],
    ...['1', '2', '10'].map((version) => ['versions', version, 'UNAVAILABLE']),
  ]);
  await server.registry.load('versions');
  expect(await run('versions')).toEqual([0, 0]);
});

describe("with Triton's config.pbtxt", () => {
  let place;
  const served = async (config, options = {}) => {
    fs.writeFileSync(path.join(place, 'mine', 'config.pbtxt'), config);
    const lines = [];
    const logger = { info: (about, text) => lines.push([about, text]), warn() {}, error() {}, debug() {}, trace() {}, fatal() {}, child: () => logger };
    const own = await createServer({ models: place, logger, ...options });
    try {
      return { versions: own.registry.versions('mine'), batching: own.registry.get('mine').onnx.batching, lines };
    } finally {
      await own.close();
    }
  };
  beforeAll(() => {
    place = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
    for (const version of ['1', '2', '3', '12']) {
      fs.mkdirSync(path.join(place, 'mine', version), { recursive: true });
      fs.writeFileSync(path.join(place, 'mine', version, 'model.onnx'), model('Add'));
    }
    fs.writeFileSync(path.join(place, 'mine', '2', 'other.onnx'), model('Mul'));
  });
  afterAll(() => fs.rmSync(place, { recursive: true }));

  test('load the versions that it wants', async () => {
    expect((await served('')).versions).toEqual(['1', '2', '3', '12']);
    expect((await served('version_policy { all {} }')).versions).toEqual(['1', '2', '3', '12']);
    expect((await served('version_policy: { latest { num_versions: 2 } }')).versions).toEqual(['3', '12']);
    expect((await served('version_policy < latest < > >')).versions).toEqual(['12']);
    expect((await served('version_policy { specific: { versions: [1, 3] } }')).versions).toEqual(['1', '3']);
    expect((await served('default_model_filename: "other.onnx"')).versions).toEqual(['2']);
  });

  test('join as many rows as it allows', async () => {
    const versions = 'version_policy { latest { } }';
    expect((await served(`max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1500 } ${versions}`)).batching).toMatchObject({ maxSize: 8, maxDelay: 1.5 });
    expect((await served(`max_batch_size: 0 ${versions}`)).batching).toBe(undefined);
    expect((await served(versions)).batching).toMatchObject({ maxSize: 16 });
    expect((await served(`max_batch_size: 8 ${versions}`, { onnx: { batching: { maxSize: 4 } } })).batching).toMatchObject({ maxSize: 4 });
  });

  test('log what has no meaning', async () => {
    const config = `name: "mine"  # a comment
      platform: "onnxruntime_onnx"
      version_policy { latest {} }
      input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }, { name: 'y' } ]
      instance_group [ { count: 2 kind: KIND_CPU } ];
      dynamic_batching { preferred_batch_size: [ 4, 8 ] }
      parameters { key: "a" value: { string_value: "b\\"{" } }`;
    const { lines } = await served(config);
    expect(lines).toContainEqual([{ model: 'mine', fields: ['instance_group', 'parameters', 'dynamic_batching.preferred_batch_size'] }, expect.stringContaining('config.pbtxt')]);
  });

  test('are refused if it is wrong, or of another platform', async () => {
    const wrong = ['max_batch_size: many', 'max_batch_size {', '}', 'input [', 'a: ]', '%', 'platform: "tensorrt_plan"', 'backend: "python"', 'default_model_filename: "../x.onnx"', 'version_policy { }', `${'a {'.repeat(10_000)}`];
    for (const config of wrong) await expect(served(config)).rejects.toMatchObject({ statusCode: 400, message: expect.stringContaining('config.pbtxt') });
  });
});
