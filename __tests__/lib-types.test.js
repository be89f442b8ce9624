'use strict';

const { spawnSync } = require('node:child_process');
const path = require('node:path');

test('lib/ agrees with its own types and with the contract of the native side', () => {
  const root = path.join(__dirname, '..');
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, '--project', path.join(root, 'lib', 'tsconfig.json')], { encoding: 'utf8' });
  expect(stdout).toBe('');
  expect(status).toBe(0);
});

test('the native side exports exactly what its contract lists', () => {
  const declared = require('node:fs').readFileSync(path.join(__dirname, '..', 'lib', 'native.d.ts'), 'utf8');
  const names = [...declared.matchAll(/^export (?:function|const) (\w+)/gm)].map(([, name]) => name);
  expect(Object.keys(require('../lib/native.js')).sort()).toEqual(names.sort());
});
