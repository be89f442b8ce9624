'use strict';

// Deno takes .js files outside node_modules for ES modules, unless package.json says `"type": "commonjs"`: a linked folder.

const { spawnSync } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const ROOT = path.join(__dirname, '..');
const PROGRAM = path.join(ROOT, 'node_modules', 'deno', 'bin.cjs');
const PARTS = ['index', 'onnx', 'generate', 'webgpu'];

// npm's deno may be left out of an installation.
(existsSync(PROGRAM) ? test : test.skip)('Deno imports the package from a linked folder', () => {
  const imports = PARTS.map((part) => `await import(${JSON.stringify(pathToFileURL(path.join(ROOT, 'lib', `${part}.mjs`)).href)});`);
  const env = { ...process.env, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1' };
  const args = [PROGRAM, 'eval', '--no-lock', `${imports.join('\n')} console.log('imported');`];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: __dirname, env, encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'imported\n', stderr: '' });
});
