'use strict';

// How long a context on a GPUDevice keeps script's thread: on a device that only takes notes, by a clock that only its methods, and
// copies of constants, move on. So it is work that is counted, and no time that passes.

const { performance } = require('node:perf_hooks');
const { ml, MLGraphBuilder } = require('../..');
const native = require('../../lib/native.js');
const { PIECE } = require('../../lib/webgpu/device.js');
const { float32 } = require('../adder.js');
const { notingDevice } = require('./noting-device.js');

/** Milliseconds that methods are taken to last; a shader is one turn whatever it lasts. */
const COSTS = { createShaderModule: 1.5, createBindGroup: 0.05, createBuffer: 0.1, writeBuffer: 1, copyConstant: 1 };

/** What a turn may take. */
const MOST = 5;

let clock;
let turn;
let longest;
let calls;
let running;

function spend(method) {
  calls.set(method, (calls.get(method) ?? 0) + 1);
  const cost = COSTS[method] ?? 0;
  clock += cost;
  turn += cost;
  longest = Math.max(longest, turn);
}

function nextTurn() {
  turn = 0;
  if (running) setImmediate(nextTurn);
}

beforeEach(() => {
  [clock, turn, longest, calls, running] = [0, 0, 0, new Map(), true];
  jest.spyOn(performance, 'now').mockImplementation(() => clock);
  const { copyConstant } = native;
  jest.spyOn(native, 'copyConstant').mockImplementation((...given) => {
    spend('copyConstant');
    return copyConstant(...given);
  });
  nextTurn();
});
afterEach(() => {
  running = false;
  jest.restoreAllMocks();
});

async function build(describe) {
  const { device } = notingDevice([], spend);
  const context = await ml.createContext(device);
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build(describe(builder));
  return { context, graph };
}

test('a graph of many passes is put on the device in turns', async () => {
  const passes = 400;
  const { context } = await build((builder) => {
    let x = builder.input('x', float32(8, 8));
    const w = builder.constant(float32(8, 8), new Float32Array(64));
    for (let i = 0; i < passes; i++) x = builder.matmul(x, w);
    return { x };
  });
  expect(calls.get('createBindGroup')).toBeGreaterThanOrEqual(passes - 2);
  expect(longest).toBeLessThan(MOST);
  // Equal shaders are one.
  expect(calls.get('createShaderModule')).toBeLessThan(10);
  context.destroy();
});

test('many shaders are given in turns', async () => {
  const { context } = await build((builder) => {
    const outputs = {};
    for (let i = 1; i <= 40; i++) outputs[`y${i}`] = builder.transpose(builder.input(`x${i}`, float32(i, i + 1)));
    return outputs;
  });
  expect(calls.get('createShaderModule')).toBeGreaterThanOrEqual(40);
  expect(longest).toBeLessThan(MOST);
  context.destroy();
});

test('many builds at once share the turns', async () => {
  const sizes = Array.from({ length: 8 }, (_, i) => 50 + 10 * i);
  const all = await Promise.all(sizes.map((size) => build((builder) => {
    const outputs = {};
    for (let i = 0; i < 10; i++) outputs[`y${i}`] = builder.transpose(builder.input(`x${i}`, float32(size + i, 2)));
    return outputs;
  })));
  expect(calls.get('createShaderModule')).toBeGreaterThanOrEqual(80);
  expect(longest).toBeLessThan(MOST);
  all.forEach(({ context }) => context.destroy());
});

test('constants are copied in pieces', async () => {
  const { context } = await build((builder) => {
    const length = 5 * PIECE;
    return { y: builder.add(builder.input('x', float32(length)), builder.constant(float32(length), new Float32Array(length))) };
  });
  expect([calls.get('copyConstant'), calls.get('writeBuffer')]).toEqual([20, 20]);
  expect(longest).toBeLessThan(MOST);
  context.destroy();
});

test('a dispatch records each pass once, and makes the bind groups of its tensors once', async () => {
  const { context, graph } = await build((builder) => {
    const x = builder.input('x', float32(8, 8));
    return { y: builder.softmax(builder.matmul(builder.softmax(x, 1), x), 1) };
  });
  const [x, y] = await Promise.all([{ writable: true }, { readable: true }].map((options) => context.createTensor({ ...float32(8, 8), ...options })));
  calls.clear();
  for (let i = 0; i < 10; i++) context.dispatch(graph, { x }, { y });
  expect(calls.get('submit')).toBe(10);
  expect(calls.get('dispatchWorkgroups')).toBe(30);
  expect(calls.get('createBindGroup')).toBeLessThanOrEqual(3);
  context.destroy();
});
