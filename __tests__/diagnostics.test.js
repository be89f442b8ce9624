'use strict';

// The channels of node:diagnostics_channel, and entries for PerformanceObserver.

const { spawnSync } = require('node:child_process');
const diagnostics = require('node:diagnostics_channel');
const path = require('node:path');
const { ml, MLGraphBuilder } = require('..');
const { generate } = require('../lib/generate.js');
const { loadOnnx } = require('../lib/onnx.js');
const { KINDS, decoder } = require('./generate/decoders.js');
const { tensor, writeModel } = require('./onnx/write.js');

const bytes = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: ['n', 2] }],
  outputs: [{ name: 'y' }],
  initializers: [tensor('one', 'float', [], Float32Array.of(1))],
  nodes: [{ op: 'Add', name: 'only', inputs: ['x', 'one'], outputs: ['y'] }],
});

/** What is published while something is done. */
async function published(names, work) {
  const events = [];
  const subscriptions = names.map((name) => [name, (message) => events.push([name, message])]);
  for (const [name, listener] of subscriptions) diagnostics.subscribe(name, listener);
  try {
    await work();
  } finally {
    for (const [name, listener] of subscriptions) diagnostics.unsubscribe(name, listener);
  }
  return events;
}

const tracing = (name) => ['start', 'end', 'asyncStart', 'asyncEnd', 'error'].map((event) => `tracing:webnn-node:${name}:${event}`);

test('loads, builds and runs are published from begin to end', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const device = 'cpu';
  let model;
  const loaded = await published(tracing('load'), async () => (model = await loadOnnx(context, bytes, { label: 'adder' })));
  expect(loaded.map(([name]) => name)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd'].map((event) => `tracing:webnn-node:load:${event}`));
  expect(loaded[0][1]).toMatchObject({ operator: 'loadOnnx', label: 'adder', device });
  const run = () => model.run({ x: { data: Float32Array.of(1, 2), shape: [1, 2] } });
  const both = await published([...tracing('build'), ...tracing('run')], run);
  const starts = both.filter(([name]) => name.endsWith(':start')).map(([name, { label, shapes }]) => [name, label, shapes]);
  expect(starts).toEqual([['tracing:webnn-node:run:start', 'adder', [[1, 2]]], ['tracing:webnn-node:build:start', 'adder', [[1, 2]]]]);
  const [, end] = both.find(([name]) => name === 'tracing:webnn-node:run:asyncEnd');
  expect([...end.result.y.data]).toEqual([2, 3]);
  expect(end).toBe(both.find(([name]) => name === 'tracing:webnn-node:run:start')[1]);
  const builder = new MLGraphBuilder(context);
  const graph = builder.relu(builder.input('x', { dataType: 'float32', shape: [2] }));
  const built = await published(tracing('build'), () => builder.build({ y: graph }, { label: 'small' }));
  expect(built[0][1]).toMatchObject({ operator: 'build', label: 'small', device });
  context.destroy();
});

test('failures are published, and runs work as before', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, bytes, { label: 'adder' });
  const x = { data: Float32Array.of(1, 2), shape: [1, 2] };
  await model.run({ x });
  const reasons = [];
  const events = await published(['webnn-node:error', ...tracing('run')], async () => {
    const run = model.run({ x });
    context.destroy();
    await run.catch((error) => reasons.push(error));
    await model.run({ x }).catch((error) => reasons.push(error));
  });
  const of = (channel) => events.filter(([name]) => name === channel).map(([, { error }]) => error);
  expect(reasons.map(({ name }) => name)).toEqual(['InvalidStateError', 'InvalidStateError']);
  expect(of('webnn-node:error')[0]).toBe(reasons[0]);
  expect(of('tracing:webnn-node:run:error')).toEqual(reasons);
});

test('runs that are refused, or given up while they wait for others, are failures', async () => {
  const context = await ml.createContext({ deviceType: 'cpu', maxQueue: 1 });
  const model = await loadOnnx(context, bytes, { label: 'adder', batching: { maxDelay: 60_000 } });
  const run = (options) => model.run({ x: { data: new Float32Array(2), shape: [1, 2] } }, options);
  const controller = new AbortController();
  const reasons = [];
  const events = await published(['webnn-node:error'], async () => {
    const waiting = run({ signal: controller.signal }).catch((error) => reasons.push(error));
    await run().catch((error) => reasons.push(error));
    controller.abort(new Error('nobody wants it'));
    await waiting;
    context.destroy();
  });
  expect(reasons.map(({ name, message }) => `${name} ${message}`)).toEqual([expect.stringMatching(/^QuotaExceededError/), 'Error nobody wants it']);
  expect(events.map(([, { operator, label, error }]) => [operator, label, error])).toEqual(reasons.map((error) => ['run', 'adder', error]));
});

test('runs of a model with batching are published with their size, rows, and how long the first has waited', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, bytes, { label: 'adder', batching: { maxSize: 4 } });
  const run = (rows) => model.run({ x: { data: new Float32Array(2 * rows), shape: [rows, 2] } });
  const events = await published(['webnn-node:batch'], async () => {
    await run(1);
    await Promise.all([run(1), run(1), run(2), run(1)]);
    // More rows than a batch has are no matter of batching.
    await run(5);
  });
  const messages = events.map(([, message]) => message);
  expect(messages.map(({ label, device, size, rows }) => [label, device, size, rows])).toEqual([['adder', 'cpu', 1, 1], ['adder', 'cpu', 1, 1], ['adder', 'cpu', 3, 4]]);
  expect(messages.slice(0, 2).map(({ waited }) => waited)).toEqual([0, 0]);
  expect(messages[2].waited).toBeGreaterThan(0);
  context.destroy();
});

test('each step of generate() is a run', async () => {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, decoder(KINDS[0]), { label: 'talker' });
  const prompts = [[1, 2, 3], [4, 5]];
  const events = await published(tracing('run'), async () => {
    for await (const token of generate(model, prompts, { maxNewTokens: 3 })) expect(token.id).toBeGreaterThanOrEqual(0);
  });
  const starts = events.filter(([name]) => name.endsWith(':start')).map(([, { operator, label, device, sequences, lengths }]) => [operator, label, device, sequences, lengths]);
  expect(starts).toEqual([0, 1, 2].map((step) => ['generate', 'talker', 'cpu', [0, 1], [3 + step, 2 + step]]));
  expect(events.filter(([name]) => name.endsWith(':asyncEnd'))).toHaveLength(3);
  model.destroy();
  context.destroy();
});

test('WEBNN_PERFORMANCE makes entries for observers, and leaves none in the timeline', () => {
  const script = `
    const { PerformanceObserver, performance } = require('node:perf_hooks');
    const entries = [];
    new PerformanceObserver((list) => entries.push(...list.getEntries())).observe({ entryTypes: ['measure'] });
    const { ml } = require('webnn-node');
    const { loadOnnx } = require('webnn-node/onnx');
    (async () => {
      const context = await ml.createContext({ deviceType: 'cpu' });
      const model = await loadOnnx(context, Buffer.from('${Buffer.from(bytes).toString('base64')}', 'base64'), { label: 'adder' });
      await model.run({ x: { data: Float32Array.of(1, 2), shape: [1, 2] } });
      await new Promise((resolve) => setTimeout(resolve, 50));
      const found = entries.map(({ name, duration, detail }) => [name, duration > 0, detail.label, detail.failed]);
      console.log(JSON.stringify([found, performance.getEntriesByType('measure').length]));
    })();`;
  const run = (value) => {
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', cwd: path.join(__dirname, '..'), env: { ...process.env, WEBNN_PERFORMANCE: value } });
    expect(stderr).toBe('');
    return JSON.parse(stdout);
  };
  const [entries, left] = run('1');
  expect(entries).toEqual(['load', 'build', 'run'].map((name) => [`webnn-node ${name}`, true, 'adder', false]));
  expect(left).toBe(0);
  expect(run('')).toEqual([[], 0]);
});
