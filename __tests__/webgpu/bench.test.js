/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// `npm run bench:gpu -- --peers` refuses a device in software. Nothing is measured here.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { isSoftware, onDevice } = require('./device.js');

const ROOT = path.join(__dirname, '..', '..');
const DRIVER = path.join(ROOT, 'target', 'swiftshader', 'vk_swiftshader_icd.json');
/** It has no weights, so its model is small in any size. */
const PART = 'product of 1024, float32';
/** Of a process with Dawn, on a slow machine. */
const LIMIT = 300_000;

let folder;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-bench-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function peers() {
  const [models, out] = ['models', 'out'].map((name) => path.join(folder, name));
  const all = ['benches/bench.mjs', 'gpu', '--peers', '--only', PART, '--models', models, '--out', out];
  return spawnSync(process.execPath, all, { cwd: ROOT, encoding: 'utf8', env: { VK_DRIVER_FILES: DRIVER, ...process.env } });
}

onDevice('a device in software is no GPU', () => {
  if (!isSoftware) return;
  const { status, stdout, stderr } = peers();
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toContain('computes in software: it is no GPU');
}, LIMIT);
