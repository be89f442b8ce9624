'use strict';

// examples/generate as a user starts it.

const { execFileSync, spawnSync } = require('node:child_process');
const path = require('node:path');

const program = path.join(__dirname, '../examples/generate/index.mjs');

function run(...args) {
  return execFileSync(process.execPath, [program, ...args], { encoding: 'utf8' });
}

test('it continues a text, the same for the same seed', () => {
  const [a, b] = [1, 2].map(() => run('--tokens', '40', '--seed', '5', 'The context').split('\n\n').at(-2));
  expect(a.startsWith('The context')).toBe(true);
  expect(a.length).toBe('The context'.length + 40);
  expect(b).toBe(a);
  expect(run('--tokens', '3', 'The')).toMatch(/\n3 tokens; the first after \d+ ms, then \d+ per second\n$/);
});

test('the model has learned words', () => {
  const text = run('--tokens', '200', '--temperature', '0', 'The ').split(/\s+/);
  // Most of what it writes when it takes the most probable characters are words of the documents.
  const common = new Set('a and are as be by for from in is it its of on or that the there they this to what where which with not one has'.split(' '));
  expect(text.filter((word) => common.has(word)).length).toBeGreaterThan(5);
});

test('what it cannot do is said in a line', () => {
  const { status, stderr } = spawnSync(process.execPath, [program, 'naïve'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, 'The small model does not know the character "ï".\n']);
});
