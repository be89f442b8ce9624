'use strict';

// npx webnn-node profile.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { decoder } = require('./generate/decoders.js');
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

test('profile of a decoder has the prompt and the tokens apart', () => {
  const file = path.join(folder, 'decoder.onnx');
  writeFileSync(file, decoder('genai'));
  const args = [file, '--generate', '4', '--prompt', '24'];
  const json = profile(...args, '--repeat', '2', '--json');
  expect(json).toMatchObject({ status: 0, stderr: '' });
  const { prompt, token } = JSON.parse(json.stdout);
  expect([prompt.runs, token.runs]).toEqual([2, 6]);
  const work = ({ steps }) => steps.reduce((sum, { multiplications }) => sum + multiplications, 0);
  expect(work(token)).toBeGreaterThan(0);
  expect(work(prompt)).toBeGreaterThan(8 * work(token));
  const html = path.join(folder, 'decoder.html');
  const { status, stdout } = profile(...args, '--html', html);
  expect(status).toBe(0);
  expect(stdout).toMatch(/^prompt: 1 run, [\d.]+ ms each/);
  expect(stdout).toMatch(/\n\ntoken: 3 runs, [\d.]+ ms each/);
  expect(stdout).toMatch(`\n\nthe page is in ${html}\n`);
  expect(readFileSync(html, 'utf8')).toContain('decoder.onnx');
  expect(profile(model, '--generate', '4')).toMatchObject({ status: 1, stderr: expect.stringContaining('generate') });
});

test('profile prints a trace, and refuses what it does not understand', () => {
  const { status, stdout } = profile(model, '--shape', 'x=8x16', '--repeat', '2', '--trace');
  expect(status).toBe(0);
  expect(JSON.parse(stdout).traceEvents.map(({ name }) => name)).toEqual(['run', 'matmul', 'softmax', 'matmul', 'run', 'matmul', 'softmax', 'matmul']);
  for (const args of [[], [model, '--device', 'tpu'], [model, '--generate', '0'], [model, '--repeat', '0'], [model, '--what']]) expect([args, profile(...args).status]).toEqual([args, 2]);
  // The message is not followed by all options, and names the one that is meant.
  expect(profile(model, '--htlm', 'x').stderr).toBe('webnn-node: there is no option --htlm; did you mean --html?\nUsage: webnn-node profile MODEL.onnx [options]; --help lists the options\n');
  expect(profile(model, '--what').stderr).toMatch('there is no option --what\n');
  // Before anything is run.
  for (const [html, reason] of [[folder, 'it is a folder'], [path.join(folder, 'missing', 'page.html'), 'ENOENT']]) {
    expect(profile('missing.onnx', '--html', html)).toMatchObject({ status: 2, stderr: expect.stringContaining(`--html ${html} cannot be written: ${reason}`) });
  }
});
