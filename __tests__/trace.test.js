'use strict';

// WEBNN_TRACE.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { decoder } = require('./generate/decoders.js');
const { tensor, writeModel } = require('./onnx/write.js');
const { dispatchAndCompute, runTraced } = require('./trace/program.js');

let folder;
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-node-trace-'));
  const initializers = [tensor('w', 'float', [32, 32], new Float32Array(1024).fill(0.1))];
  const nodes = [
    { op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['p'] },
    { op: 'Relu', name: 'rectified', inputs: ['p'], outputs: ['q'] },
    { op: 'Softmax', name: 'shares', inputs: ['q'], outputs: ['y'] },
  ];
  fs.writeFileSync(path.join(folder, 'model.onnx'), writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: ['n', 32] }], outputs: [{ name: 'y' }], initializers, nodes }));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** The same with `x`, and a model that batches. */
function program(body, trace, environment = {}) {
  const x = 'const x = { data: new Float32Array(32), shape: [1, 32] };';
  return runTraced(folder, x + body, trace, { options: { batching: { maxSize: 8 } }, environment });
}
const read = (name) => fs.readFileSync(path.join(folder, name), 'utf8');
const of = (events, cat) => events.filter((event) => event.cat === cat);

test('it has calls, queues, batches and steps, in the trace format', () => {
  const body = `
    await model.run({ x });
    await Promise.all(Array.from({ length: 6 }, () => model.run({ x })));
    const profile = model.profile();
    await model.run({ x }, { signal: new AbortController().signal });
    if (profile.runs[0].steps.length === 0) throw new Error('the profile has no steps');`;
  const { status, stderr, pid } = program(body, 'trace-$' + '{pid}.json');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const events = JSON.parse(read(`trace-${pid}.json`));
  for (const { ph, pid: process, ts, dur } of events) {
    expect([ph, process]).toEqual([expect.stringMatching(/^[MXbeCi]$/), pid]);
    if (ph !== 'M') expect(ts).toBeGreaterThan(0);
    if (ph === 'X') expect(dur).toBeGreaterThanOrEqual(0);
  }
  // Each span begins once and ends once.
  const ids = (ph) => events.filter((event) => event.ph === ph).map(({ cat, id }) => `${cat} ${id}`).sort();
  expect(ids('b')).toEqual(ids('e'));
  expect(of(events, 'run').filter(({ ph }) => ph === 'b').map(({ name, args }) => [name, args.shapes])).toEqual(Array(8).fill(['run small', [[1, 32]]]));
  expect(of(events, 'call').filter(({ name }) => name === 'run small')).toHaveLength(8);
  expect(of(events, 'load').map(({ name }) => name)).toEqual(['load small', 'load small']);
  expect(of(events, 'queue').length).toBeGreaterThanOrEqual(4);
  expect(of(events, 'batch').filter(({ args }) => args !== undefined).reduce((sum, { args }) => sum + args.size, 0)).toBe(7);
  const [step] = of(events, 'step');
  expect(step).toMatchObject({ name: 'matmul', args: { model: 'small', dataType: 'float32', text: expect.stringContaining('[1,32]'), implementation: expect.any(String) } });
  expect(step.args.peak.gflops).toBeGreaterThan(0);
  expect(events.filter(({ name }) => name === 'thread_name').map(({ tid }) => tid)).toContain(step.tid);
  // The slices of a track follow each other.
  const tracks = Map.groupBy?.(of(events, 'step'), ({ tid }) => tid) ?? new Map([[0, []]]);
  for (const slices of tracks.values()) {
    slices.sort((a, b) => a.ts - b.ts);
    slices.slice(1).forEach(({ ts }, i) => expect(ts).toBeGreaterThanOrEqual(slices[i].ts + slices[i].dur - 0.002));
  }
});

test('what is there when the process is killed can be read', () => {
  const body = `for (let i = 0; i < 500; i++) await model.run({ x });
    const { readFileSync } = require('node:fs');
    // The trace is written a while after what it has.
    while (readFileSync('killed.json', 'utf8').split('"cat":"step"').length <= 1000) await new Promise((resolve) => setTimeout(resolve, 20));
    process.kill(process.pid, 'SIGKILL');`;
  expect(program(body, 'killed.json').signal).toBe(process.platform === 'win32' ? null : 'SIGKILL');
  const text = read('killed.json');
  expect(text.endsWith(',\n')).toBe(true);
  expect(of(JSON.parse(`${text.slice(0, -2)}]`), 'step').length).toBeGreaterThanOrEqual(1000);
});

test('it does not grow beyond its limit, and says so', () => {
  const { status, stderr } = program(`for (let i = 0; i < 2000; i++) await model.run({ x });`, 'full.json', { WEBNN_TRACE_BYTES: '100000' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/\[WEBNN_TRACE\] WebNNWarning: the trace of WEBNN_TRACE has 100000 bytes/) });
  expect(read('full.json').length).toBeLessThan(101_000);
  expect(JSON.parse(read('full.json')).at(-1).name).toBe('the trace ends');
});

test('a file that cannot be written is a warning; workers have files of their own', () => {
  const body = `const { Worker } = require('node:worker_threads');
    const worker = new Worker("require(" + ${JSON.stringify(JSON.stringify(path.join(__dirname, '..')))} + ")", { eval: true });
    await new Promise((resolve) => worker.once('exit', resolve));
    console.log((await model.run({ x })).y.data.length);`;
  const missing = program(body, path.join('nowhere', 'trace.json'));
  expect(missing).toMatchObject({ status: 0, stdout: '32\n', stderr: expect.stringMatching(/\[WEBNN_TRACE\] WebNNWarning: the trace of WEBNN_TRACE cannot be written: ENOENT/) });
  expect(program(body, 'own.json')).toMatchObject({ status: 0, stdout: '32\n', stderr: '' });
  expect(of(JSON.parse(read('own.json')), 'step').length).toBeGreaterThan(0);
  expect(JSON.parse(read('own.1.json')).length).toBeGreaterThan(3);
});

test('it has the operators of the steps of generate()', () => {
  fs.writeFileSync(path.join(folder, 'decoder.onnx'), decoder('genai'));
  const body = `
    const { generate } = require(${JSON.stringify(path.join(__dirname, '..', 'lib', 'generate.js'))});
    const decoder = await loadOnnx(context, 'decoder.onnx', { label: 'says' });
    const said = async (prompt) => { for await (const { id } of generate(decoder, prompt, { maxNewTokens: 3 })) if (id < 0) throw new Error('no token'); };
    await Promise.all([said([1, 2, 3]), said([4, 5, 6])]);`;
  expect(program(body, 'generate.json')).toMatchObject({ status: 0, stderr: '' });
  const events = JSON.parse(read('generate.json'));
  const steps = of(events, 'step').filter(({ args }) => args.model === 'says');
  const operators = new Set(steps.map(({ name }) => name));
  expect([...operators]).toEqual(expect.arrayContaining(['matmul', 'gather']));
  expect(steps.every(({ dur, args }) => dur >= 0 && args.implementation !== '' && args.peak.gflops > 0)).toBe(true);
  // Of each step of a call, or of several together.
  const begun = of(events, 'run').filter(({ ph, name }) => ph === 'b' && name === 'run says');
  expect(begun).toHaveLength(6);
  expect(of(events, 'queue').filter(({ ph, name }) => ph === 'b' && name === 'queued says').length).toBeGreaterThanOrEqual(4);
});

test('it has the steps of dispatch() and compute()', () => {
  expect(program(dispatchAndCompute, 'context.json')).toMatchObject({ status: 0, stderr: '' });
  const steps = of(JSON.parse(read('context.json')), 'step');
  expect(steps.map(({ name, args }) => [name, args.model])).toEqual([['add', 'dispatched'], ['add', 'computed']]);
  // What they are compared with.
  for (const { args } of steps) expect([args.peak?.gflops > 0, args.peak?.gbs > 0]).toEqual([true, true]);
});

test('it has what is computed between the parts of a split model', () => {
  const nodes = [
    { op: 'NonZero', name: 'cut', inputs: ['x'], outputs: ['i'] },
    { op: 'Cast', name: 'cast', inputs: ['i'], outputs: ['y'], attributes: { to: 1 } },
  ];
  fs.writeFileSync(path.join(folder, 'split.onnx'), writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [4] }], outputs: [{ name: 'y' }], nodes }));
  const body = `const split = await loadOnnx(context, 'split.onnx', { label: 'split' });
    await split.run({ x: Float32Array.of(0, 1, 0, 1) });`;
  expect(program(body, 'split.json')).toMatchObject({ status: 0, stderr: '' });
  const steps = of(JSON.parse(read('split.json')), 'step').filter(({ args }) => args.model === 'split');
  expect(steps.map(({ name, args }) => [name, args.implementation])).toEqual(expect.arrayContaining([['NonZero', 'between parts']]));
});
