'use strict';

// Steps on a GPU, whose times the device tells.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { TOKENS, decoder } = require('./generate/decoders.js');
const { withContexts } = require('./onnx/contexts.js');
const { tensor, writeModel } = require('./onnx/write.js');
const { dispatchAndCompute, runTraced } = require('./trace/program.js');

let gpu;
withContexts((_, found) => {
  gpu = found;
});

const onGpu = (name, body) => test(name, async () => {
  if (gpu) await body(gpu);
});

const bytes = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: ['n', 96] }],
  outputs: [{ name: 'y' }],
  initializers: [tensor('w', 'float', [96, 32], new Float32Array(96 * 32).fill(0.5))],
  nodes: [
    { op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['p'] },
    { op: 'Relu', name: 'positive', inputs: ['p'], outputs: ['q'] },
    { op: 'Softmax', name: 'shares', inputs: ['q'], outputs: ['y'] },
  ],
});
const x = { data: new Float32Array(64 * 96).fill(1), shape: [64, 96] };

/** That steps follow each other within a run. */
function expectInOrder({ ms, steps }) {
  let until = 0;
  for (const { began, ms: length, thread } of steps) {
    expect([thread, began >= until - 0.001, length >= 0]).toEqual(['GPU', true, true]);
    until = began + length;
  }
  expect(until).toBeLessThanOrEqual(ms + 1);
}

onGpu('runs have steps with what computes them', async (context) => {
  const model = await loadOnnx(context, bytes);
  const [plain] = [await model.run({ x })];
  const profile = model.profile();
  const found = await Promise.all([model.run({ x }), model.run({ x })]);
  const bindings = await model.createBindings({ inputs: { x } });
  bindings.dispatch();
  await bindings.read('y');
  profile.stop();
  await model.run({ x });
  for (const { y } of found) expect(y.data).toEqual(plain.y.data);
  // Of a graph the steps are there in another turn.
  for (let i = 0; i < 100 && profile.runs.length < 3; i++) await new Promise((resolve) => { setTimeout(resolve, 10); });
  expect(profile.runs).toHaveLength(3);
  for (const run of profile.runs) {
    const { steps } = run;
    expect(steps.map(({ operator, label }) => [operator, label])).toEqual([['matmul', 'product'], ['softmax', 'shares']]);
    expect(steps[0].text).toBe('matmul + relu [64,96] [96,32] -> [64,32] "product"');
    expect(steps[0]).toMatchObject({ multiplications: 64 * 96 * 32, bytes: 4 * (64 * 96 + 96 * 32 + 64 * 32), dataType: 'float32' });
    expect(steps.map(({ implementation }) => implementation !== '')).toEqual([true, true]);
    expect(steps.map(({ sources }) => sources)).toEqual([[], [0]]);
    expectInOrder(run);
  }
  expect(await profile.peak()).toBeUndefined();
  model.destroy();
});

onGpu('a graph of more steps than a set of queries has places for is profiled whole', async (context) => {
  const names = Array.from({ length: 2101 }, (_, i) => `v${i}`);
  // Sums along another axis each time, none of which joins the one before it.
  const nodes = names.slice(1).map((name, i) => ({ op: 'CumSum', name, inputs: [names[i], i % 2 ? 'first' : 'second'], outputs: [name] }));
  const axis = (name, value) => tensor(name, 'int64', [], BigInt64Array.of(value));
  const long = writeModel({ opset: 17, inputs: [{ name: 'v0', type: 'float', shape: [2, 2] }], outputs: [{ name: names.at(-1) }], initializers: [axis('first', 0n), axis('second', 1n)], nodes });
  const model = await loadOnnx(context, long);
  const profile = model.profile();
  await model.run({ v0: new Float32Array(4) });
  const [run] = profile.runs;
  expect(run.steps.map(({ label }) => label)).toEqual(names.slice(1));
  expectInOrder(run);
  model.destroy();
});

onGpu('the steps of generate()', async (context) => {
  const model = await loadOnnx(context, decoder('GroupQueryAttention'));
  const profile = model.profile();
  const prompt = Array.from({ length: 9 }, (_, i) => (5 * i) % TOKENS);
  let count = 0;
  for await (const { id } of generate(model, prompt, { maxNewTokens: 4 })) count += id < TOKENS ? 1 : 0;
  expect([count, profile.runs.length]).toEqual([4, 4]);
  for (const { steps } of profile.runs) {
    expect(steps.length).toBeGreaterThan(5);
    expect(steps.every(({ ms, thread }) => ms >= 0 && thread === 'GPU')).toBe(true);
  }
  model.destroy();
});

onGpu('npx webnn-node profile prints them', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-node-profile-gpu-'));
  const file = path.join(folder, 'model.onnx');
  fs.writeFileSync(file, bytes);
  const command = [path.join(__dirname, '..', 'bin', 'webnn-node.js'), 'profile', file, '--device', 'gpu', '--shape', 'x=8x96', '--repeat', '3', '--json'];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.any(String) });
  const { runs, steps, peak } = JSON.parse(stdout);
  expect([runs, peak, steps.map(({ label }) => label)]).toEqual([3, undefined, ['product', 'shares']]);
  fs.rmSync(folder, { recursive: true });
});

onGpu('WEBNN_TRACE has them, each once', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-node-trace-gpu-'));
  fs.writeFileSync(path.join(folder, 'model.onnx'), bytes);
  const body = `await model.run({ x: { data: new Float32Array(96), shape: [1, 96] } });${dispatchAndCompute}`;
  const { status, stderr } = runTraced(folder, body, 'trace.json', { deviceType: 'gpu', environment: { NODE_NO_WARNINGS: '1' } });
  // Drivers say things of their own.
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.any(String) });
  const events = JSON.parse(fs.readFileSync(path.join(folder, 'trace.json'), 'utf8'));
  const steps = events.filter(({ cat }) => cat === 'step').map(({ name, args }) => [name, args.model]);
  expect(steps).toEqual([['matmul', 'small'], ['softmax', 'small'], ['add', 'dispatched'], ['add', 'computed']]);
  const tracks = events.filter(({ name }) => name === 'thread_name').map(({ args }) => args.name);
  expect(tracks).toEqual(['script', 'GPU']);
  fs.rmSync(folder, { recursive: true });
});
