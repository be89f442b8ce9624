'use strict';

// npx webnn-node profile.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./onnx/write.js');

const program = path.join(__dirname, '..', 'bin', 'webnn-node.js');

function profile(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, 'profile', ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

let folder;
let model;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-profile-'));
  model = path.join(folder, 'model.onnx');
  const initializers = [tensor('w', 'float', [16, 16], new Float32Array(256).fill(0.5))];
  const nodes = [
    { op: 'MatMul', name: 'first', inputs: ['x', 'w'], outputs: ['p'] },
    { op: 'Softmax', name: 'shares', inputs: ['p'], outputs: ['q'] },
    { op: 'MatMul', name: 'second', inputs: ['q', 'w'], outputs: ['y'] },
  ];
  writeFileSync(model, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: ['n', 16] }], outputs: [{ name: 'y' }], initializers, nodes }));
});
afterAll(() => rmSync(folder, { recursive: true }));

test('profile prints steps and operators', () => {
  const json = profile(model, '--shape', 'x=8x16', '--repeat', '3', '--json');
  expect(json).toMatchObject({ status: 0, stderr: '' });
  const { runs, stepMs, steps, operators, peak } = JSON.parse(json.stdout);
  expect(peak.gflops > 0.1 && peak.gbs > 0.1).toBe(true);
  expect(runs).toBe(3);
  expect(steps.map(({ text }) => text)).toEqual(['matmul [8,16] [16,16] -> [8,16] "first"', 'softmax [8,16] -> [8,16] "shares"', 'matmul [8,16] [16,16] -> [8,16] "second"']);
  expect(steps.map(({ sources, dataType }) => [sources, dataType])).toEqual([[[], 'float32'], [[0], 'float32'], [[1], 'float32']]);
  expect(steps[0].gflops).toBeCloseTo((2 * 8 * 16 * 16) / steps[0].ms / 1e6, 6);
  expect(operators.find(({ operator }) => operator === 'matmul').count).toBe(2);
  expect(operators.reduce((sum, { ms }) => sum + ms, 0)).toBeCloseTo(stepMs, 9);
  const { status, stdout } = profile(model, '--shape', 'x=8x16');
  expect(status).toBe(0);
  expect(stdout).toMatch(/^10 runs, [\d.]+ ms each.*\nthis machine: [\d.]+ GFLOP\/s of a float32 product, [\d.]+ GB\/s of memory/);
  expect(stdout).toMatch(/ [\d.]+ +\d+% +[\d.]+( +\d+%)? +\S+ +matmul \[8,16\]/);
  expect(stdout).toMatch(/ +2 {2}matmul\n/);
});

test('profile prints a trace, and refuses what it does not understand', () => {
  const { status, stdout } = profile(model, '--shape', 'x=8x16', '--repeat', '2', '--trace');
  expect(status).toBe(0);
  expect(JSON.parse(stdout).traceEvents.map(({ name }) => name)).toEqual(['run', 'matmul', 'softmax', 'matmul', 'run', 'matmul', 'softmax', 'matmul']);
  for (const args of [[], [model, '--device', 'gpu'], [model, '--repeat', '0'], [model, '--what']]) expect([args, profile(...args).status]).toEqual([args, 2]);
});
