'use strict';

// examples/opentelemetry with a small model: spans, their parents, and metrics.

const { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { tensor, writeModel } = require('./onnx/write.js');

const ROOT = path.join(__dirname, '..');
let folder;

beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-opentelemetry-'));
  // As somebody has it who installed its packages.
  cpSync(path.join(ROOT, 'examples', 'opentelemetry'), path.join(folder, 'example'), { recursive: true, filter: (name) => !/node_modules/.test(path.relative(ROOT, name)) });
  const modules = path.join(folder, 'example', 'node_modules');
  mkdirSync(path.join(modules, '@opentelemetry'), { recursive: true });
  symlinkSync(ROOT, path.join(modules, 'webnn-node'), 'junction');
  symlinkSync(path.join(ROOT, 'node_modules', '@opentelemetry', 'api'), path.join(modules, '@opentelemetry', 'api'), 'junction');
  const initializers = [tensor('w', 'float', [8, 4], new Float32Array(32).fill(0.5))];
  const nodes = [{ op: 'MatMul', name: 'product', inputs: ['x', 'w'], outputs: ['p'] }, { op: 'Relu', name: 'rectified', inputs: ['p'], outputs: ['y'] }];
  writeFileSync(path.join(folder, 'model.onnx'), writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: ['n', 8] }], outputs: [{ name: 'y' }], initializers, nodes }));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args) => spawnSync(process.execPath, [path.join(folder, 'example', 'index.mjs'), ...args], { encoding: 'utf8' });

test('loads, builds, requests and runs are spans, and runs are children of requests', () => {
  const { status, stdout, stderr } = run(path.join(folder, 'model.onnx'));
  expect([status, stderr]).toEqual([0, '']);
  const spans = [...stdout.matchAll(/^span (\w{6})(?: in (\w{6}))?: (webnn-node \w+|request)( example)?, [\d.]+ ms(, failed: .+)?$/gm)];
  const of = (name) => spans.filter(([, , , found]) => found === name);
  expect([of('webnn-node load').length, of('request').length, of('webnn-node run').length]).toEqual([1, 13, 13]);
  expect(of('webnn-node build').length).toBeGreaterThan(0);
  const requests = of('request').map(([, id]) => id);
  expect(of('webnn-node run').map(([, , parent]) => parent).sort()).toEqual([...requests].sort());
  expect(of('webnn-node run').filter(([, , , , , failure]) => failure?.includes('maxBytes'))).toHaveLength(1);
});

test('durations, batches and runs under way are metrics', () => {
  const { stdout } = run(path.join(folder, 'model.onnx'));
  const metrics = [...stdout.matchAll(/^metric (\S+) (\{.*?\}): (\d+)/gm)].map(([, name, attributes, value]) => [name, JSON.parse(attributes), Number(value)]);
  const of = (wanted) => metrics.filter(([name]) => name === `webnn_node.${wanted}`);
  const runs = of('duration').filter(([, { operation }]) => operation === 'run');
  expect(runs.map(([, { model, failed }, count]) => [model, failed, count])).toEqual([['example', false, 12], ['example', true, 1]]);
  expect(of('batch.size')).toHaveLength(1);
  expect(of('runs')).toEqual([['webnn_node.runs', { model: 'example' }, 0]]);
  expect(run().status).toBe(2);
});
