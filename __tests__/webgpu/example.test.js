/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// examples/webgpu as a person runs it.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { PNG } = require('pngjs');
const { onDevice } = require('./device.js');

onDevice('examples/webgpu draws, reads and marks a sheet of digits', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-webgpu-'));
  const file = path.join(folder, 'sheet.png');
  const program = path.join(__dirname, '..', '..', 'examples', 'webgpu', 'index.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, file], { encoding: 'utf8', timeout: 50_000 });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/48 digits drawn, read and marked in .* 48 of them right/);
  const { width, height, data } = PNG.sync.read(fs.readFileSync(file));
  expect([width, height]).toEqual([1024, 576]);
  // Green segments are on the sheet.
  let green = 0;
  for (let i = 0; i < data.length; i += 4) green += data[i] < 60 && data[i + 1] > 110 && data[i + 2] < 90;
  expect(green).toBeGreaterThan(1000);
  fs.rmSync(folder, { recursive: true });
});
