'use strict';

// The command of the measurements: `npm run bench -- NAME`. Nothing is measured here.

const { spawnSync } = require('node:child_process');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');

function bench(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['benches/bench.mjs', ...args], { cwd: ROOT, encoding: 'utf8' });
  return { status, stdout, stderr };
}

const listed = [...bench('--help').stdout.matchAll(/^ {2}(\w+) {2,}\S/gm)].map(([, name]) => name);

test('--help lists all measurements', () => {
  expect(listed).toEqual(['workloads', 'models', 'text', 'batch_decode', 'speculate', 'transformers', 'openvino', 'gpu', 'webgpu', 'shaders', 'real', 'memory', 'cycles', 'starts', 'batching', 'streams', 'chat', 'serving', 'constrain', 'observing', 'charts']);
});

test.each(listed)('%s --help lists its options', (name) => {
  const { status, stdout, stderr } = bench(name, '--help');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^npm run bench -- .*\n\n(.|\n)* {2}--\w+/);
});

test.each([['nothing'], ['text'], ['batch_decode'], ['speculate'], ['openvino'], ['transformers'], ['models'], ['workloads', '--only', 'nothing'], ['gpu', '--peers', '--engine', 'nothing']])('%s is refused', (...args) => {
  const { status, stderr } = bench(...args);
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(/there is|is missing|argument missing/) });
});
