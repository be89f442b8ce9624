'use strict';

// examples/images with a small model, on pictures that are made here.

const { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const jpeg = require('jpeg-js');
const { unpackModels } = require('./transformers/models.js');

const ROOT = path.join(__dirname, '..');
let folder;

beforeAll(() => {
  folder = unpackModels();
  // As somebody has it who installed its packages.
  cpSync(path.join(ROOT, 'examples', 'images'), path.join(folder, 'example'), { recursive: true, filter: (name) => !/node_modules|[/\\]model$/.test(path.relative(ROOT, name)) });
  const modules = path.join(folder, 'example', 'node_modules');
  mkdirSync(modules);
  symlinkSync(ROOT, path.join(modules, 'webnn-node'), 'junction');
  symlinkSync(path.join(ROOT, 'node_modules', 'sharp'), path.join(modules, 'sharp'), 'junction');
  mkdirSync(path.join(folder, 'pictures'));
  for (const [i, name] of ['a.jpg', 'b.JPEG', 'c.jpg'].entries()) {
    const [width, height] = [40 + 30 * i, 60];
    const data = Uint8Array.from({ length: width * height * 4 }, (_, at) => 128 + 100 * Math.sin((at % 4) + (at >> 2) * 0.05 * (i + 1)));
    writeFileSync(path.join(folder, 'pictures', name), jpeg.encode({ data, width, height }, 90).data);
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args) => spawnSync(process.execPath, [path.join(folder, 'example', 'index.mjs'), ...args], { encoding: 'utf8' });

test('pictures get labels, the same ones in batches of any size', () => {
  const [one, all] = [1, 8].map((batch) => run(path.join(folder, 'pictures'), '--model', path.join(folder, 'vit'), '--batch', String(batch)));
  expect([one.status, all.status, one.stderr]).toEqual([0, 0, '']);
  const lines = one.stdout.trim().split('\n');
  expect(lines.slice(0, 3)).toEqual(all.stdout.trim().split('\n').slice(0, 3));
  for (const [i, name] of ['a.jpg', 'b.JPEG', 'c.jpg'].entries()) {
    expect(lines[i]).toMatch(new RegExp(`^${name}: (cat|dog|bird|fish|car|ship) \\d+\\.\\d %, `));
  }
  expect(lines[3]).toMatch(/^3 pictures in /);
});

test('what is no picture is reported', () => {
  writeFileSync(path.join(folder, 'pictures', 'd.jpg'), 'no picture');
  const { status, stdout, stderr } = run(path.join(folder, 'pictures'), '--model', path.join(folder, 'vit'));
  expect([status, stderr]).toEqual([1, expect.stringContaining('d.jpg: ')]);
  expect(stdout).toContain('3 pictures in ');
  expect(run().status).toBe(1);
});
