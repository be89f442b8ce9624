'use strict';

// examples/vision-language as a user starts it.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const folder = path.join(__dirname, '../examples/vision-language');

function run(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(folder, 'index.mjs'), ...args], { encoding: 'utf8' });
  return { status, stderr, text: stdout.trim() };
}

const picture = (name) => path.join(folder, `${name}.ppm`);

test('it says something else of other pictures', () => {
  const [red, again, blue, both] = [[], [picture('red')], [picture('blue')], [picture('red'), picture('blue')]].map((pictures) => run(...pictures));
  for (const { status, stderr, text } of [red, again, blue, both]) {
    expect([status, stderr]).toEqual([0, '']);
    expect(text).toMatch(/^look at <image> and say:( [a-z]+){12}$/);
  }
  expect(again.text).toBe(red.text);
  expect(new Set([red.text, blue.text, both.text]).size).toBe(3);
});

test('what it cannot do is said in a line', () => {
  const { status, stderr } = run('--prompt', 'what is <image>');
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^The small model does not know the word "what"\. It knows: .*\n$/)]);
  const other = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-picture-'));
  const file = path.join(other, 'x.ppm');
  writeFileSync(file, 'P6\n8 8\n255\nshort');
  expect(run(file)).toMatchObject({ status: 1, stderr: `${file}: found something else, allowed a PPM file (P6) of 4 × 4 pixels or more\n` });
  rmSync(other, { recursive: true });
});
