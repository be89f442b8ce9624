'use strict';

// npx webnn-node bench, and the verdict of its comparison.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { planRounds } = require('../lib/command-line/bench/measure.js');
const { find } = require('../lib/command-line/bench/onnxruntime.js');
const { compareRounds, latencies } = require('../lib/command-line/bench/statistics.js');
const { tensor, writeModel } = require('./onnx/write.js');

const program = path.join(__dirname, '..', 'bin', 'webnn-node.js');

const bench = (...args) => started([], args);

/** With modules that are loaded first. */
function started(modules, args) {
  const before = modules.flatMap((name) => ['--require', path.join(__dirname, 'processes', name)]);
  const { status, stdout, stderr } = spawnSync(process.execPath, [...before, program, 'bench', ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

let folder;
let model;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-bench-'));
  model = path.join(folder, 'model.onnx');
  const initializers = [tensor('one', 'float', [], Float32Array.of(1))];
  const nodes = [{ op: 'Add', name: 'only', inputs: ['x', 'one'], outputs: ['y'] }];
  writeFileSync(model, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: ['n', 2] }], outputs: [{ name: 'y' }], initializers, nodes }));
});
afterAll(() => rmSync(folder, { recursive: true }));

test('bench measures latency, throughput and memory, beside onnxruntime-node, and compares with an earlier result', () => {
  const first = bench(model, '--shape', 'x=3x2', '--seconds', '0.4', '--in-flight', '1,4', '--json');
  expect(first).toMatchObject({ status: 0, stderr: '' });
  const result = JSON.parse(first.stdout);
  expect(result).toMatchObject({ model: 'model.onnx', device: 'cpu', inputs: [{ name: 'x', dataType: 'float32', shape: [3, 2] }] });
  expect(result.peakMemoryBytes).toBeGreaterThan(1e6);
  expect(result.levels.map(({ inFlight }) => inFlight)).toEqual([1, 4]);
  for (const { runs, perSecond, latencyMs, rounds } of result.levels) {
    expect(rounds.length).toBeGreaterThanOrEqual(3);
    expect(runs).toBeGreaterThanOrEqual(rounds.length);
    expect(perSecond).toBeGreaterThan(0);
    expect(latencyMs.min).toBeGreaterThan(0);
    expect([latencyMs.p50, latencyMs.p90, latencyMs.p99, latencyMs.max]).toEqual([latencyMs.p50, latencyMs.p90, latencyMs.p99, latencyMs.max].sort((a, b) => a - b));
  }
  if (find() === undefined) expect(result.onnxruntime).toEqual({ missing: 'not installed' });
  else expect(result.onnxruntime).toMatchObject({ levels: [{ inFlight: 1 }, { inFlight: 4 }], comparison: [{ inFlight: 1 }, { inFlight: 4 }] });
  const file = path.join(folder, 'before.json');
  writeFileSync(file, first.stdout);
  const { status, stdout } = bench(model, '--shape', 'x=3x2', '--seconds', '0.2', '--in-flight', '1', '--alone', '--compare', file);
  expect(status).toBe(0);
  expect(stdout).toMatch(/compared with .*before\.json:\n +1 +[\d.]+ times the runs\/s \(95 %: [\d.]+ to [\d.]+\): (faster|slower|no difference that can be told from noise)\n/);
  expect(stdout).not.toContain('onnxruntime-node');
  // Other shapes are other work.
  expect(bench(model, '--shape', 'x=4x2', '--seconds', '0.1', '--compare', file)).toMatchObject({ status: 2, stderr: expect.stringContaining('found the inputs x float32[3,2]') });
});

test('a terminal shows how much is measured, until all is', () => {
  const args = [model, '--shape', 'x=3x2', '--seconds', '0.2', '--in-flight', '1,4', '--alone', '--json'];
  const { status, stdout, stderr } = started(['terminal.js'], args);
  expect(status).toBe(0);
  const lines = stderr.slice(stderr.indexOf('\rmeasuring ')).split('\r').slice(1);
  // A line for each round of each level, and one that erases the last.
  const { levels } = JSON.parse(stdout);
  const steps = levels.reduce((sum, { rounds }) => sum + rounds.length, 0);
  expect(lines).toHaveLength(steps + 1);
  expect(lines.pop()).toBe('\x1b[K');
  const parts = lines.map((line) => /^measuring \[(#*)(\.*)\] (\d+) %(.*)$/.exec(line).slice(1));
  expect(parts.map(([, , , end]) => end)).toEqual(parts.map(() => '\x1b[K'));
  expect(parts.map(([done, left]) => done.length + left.length)).toEqual(parts.map(() => 30));
  expect(parts.map(([, , percent]) => Number(percent))).toEqual(parts.map((_, i) => Math.round((100 * (i + 1)) / steps)));
  expect(parts.map(([done]) => done.length)).toEqual(parts.map((_, i) => Math.round((30 * (i + 1)) / steps)));
  expect(started(['no-terminal.js'], args)).toMatchObject({ status: 0, stderr: '' });
});

test('bench runs as a context with a hint does', () => {
  for (const hint of ['latency', 'throughput', '2']) {
    const { status, stdout } = bench(model, '--shape', 'x=3x2', '--seconds', '0.1', '--in-flight', '2', '--alone', '--performance', hint);
    expect([status, stdout]).toEqual([0, expect.stringContaining(`threads, performance ${hint}, `)]);
  }
  const { stdout } = bench(model, '--shape', 'x=3x2', '--seconds', '0.1', '--in-flight', '2', '--alone', '--performance', '2', '--json');
  expect(JSON.parse(stdout).performance).toBe(2);
  for (const hint of ['fast', '0', '1.5']) expect(bench(model, '--performance', hint)).toMatchObject({ status: 2, stderr: expect.stringContaining(`--performance ${hint}: expected latency, throughput or a whole number above 0`) });
});

test('bench refuses what it does not understand', () => {
  const file = path.join(folder, 'other.json');
  writeFileSync(file, '{}');
  for (const args of [[], [model, '--seconds', '0'], [model, '--in-flight', '1,x'], [model, '--compare', file], [model, '--compare', path.join(folder, 'missing.json')]]) {
    expect([args, bench(...args).status]).toEqual([args, 2]);
  }
  expect(bench('--help')).toMatchObject({ status: 0, stdout: expect.stringContaining('--compare') });
  expect(readFileSync(file, 'utf8')).toBe('{}');
});

test('a verdict needs rounds, and more difference than noise', () => {
  const around = (middle) => [0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03].map((factor) => factor * middle);
  expect(compareRounds(around(130), around(100))).toMatchObject({ ratio: 1.3, verdict: 'faster' });
  expect(compareRounds(around(100), around(130)).verdict).toBe('slower');
  expect(compareRounds(around(101), around(100)).verdict).toBe('no difference that can be told from noise');
  // Rounds that agree within themselves, in processes that differ by a percent.
  expect(compareRounds([101, 101, 101, 101], [100, 100, 100, 100]).verdict).toBe('no difference that can be told from noise');
  // A difference of the medians within rounds that differ more.
  expect(compareRounds([60, 90, 110, 150, 200], [50, 80, 100, 160, 210]).verdict).toBe('no difference that can be told from noise');
  expect(compareRounds([200, 200], [100, 100]).verdict).toBe('too few rounds');
});

test('percentiles are between runs; slow models have fewer rounds', () => {
  expect(latencies([3, 1, 2, 5, 4])).toEqual({ min: 1, p50: 3, p90: 4.6, p99: 4.96, max: 5 });
  expect(planRounds(10, [1, 8, 32], 0.1).rounds).toBe(10);
  expect(planRounds(10, [1, 8, 32], 50)).toEqual({ rounds: 4, ms: 10000 / 12 });
  expect(planRounds(10, [1, 8, 32], 1000).rounds).toBe(3);
});
