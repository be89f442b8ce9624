'use strict';

// examples/chat as a user starts it.

const { execFileSync, spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { END, writeChat } = require('./serve/openai/folders.js');

const program = path.join(__dirname, '../examples/chat/index.mjs');
const SCRIPTS = { A: ['Hello', ' wor', 'ld', ...Buffer.from('😀'), END], B: ['Good', ' bye', END], L: ['la', ' li', 'la'] };

let folder;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-chat-'));
  writeChat(path.join(folder, 'model'), SCRIPTS, { maxLength: 120 });
});
afterAll(() => rmSync(folder, { recursive: true }));

const run = (input, ...args) => execFileSync(process.execPath, [program, '--model', path.join(folder, 'model'), '--temperature', '0', ...args], { encoding: 'utf8', input });

test('it answers, remembers, and goes on', () => {
  const file = path.join(folder, 'talk.json');
  const first = run('say A\n\nsay B\n', '--file', file, '--system', 'Be brief.', '--tokens', '20');
  expect(first).toMatch(/^> Hello world😀\n\[8 tokens; the first after \d+ ms, then \d+ per second; 0 tokens were known\]\n> > Good bye\n\[3 tokens; .*; 30 tokens were known\]\n> $/);
  expect(JSON.parse(readFileSync(file, 'utf8')).messages.map(({ role, content }) => [role, content])).toEqual([
    ['system', 'Be brief.'],
    ['user', 'say A'],
    ['assistant', 'Hello world😀'],
    ['user', 'say B'],
    ['assistant', 'Good bye'],
  ]);
  expect(run('say A\n', '--file', file, '--tokens', '20')).toMatch(/^\[goes on after question 2\]\n> Hello world😀\n/);
});

test('it forgets the oldest messages where they do not fit', () => {
  const file = path.join(folder, 'long.json');
  const text = run('a first question that is long, L\nA\nB\n', '--file', file, '--tokens', '60', '--system', 'S');
  expect(text.match(/Hello world😀|Good bye/g)).toEqual(['Hello world😀', 'Good bye']);
  expect(JSON.parse(readFileSync(file, 'utf8')).messages).toHaveLength(7);
});

test('what is wrong is said in a line', () => {
  expect(spawnSync(process.execPath, [program], { encoding: 'utf8' }).stdout).toMatch(/^usage: /);
  const { status, stderr } = spawnSync(process.execPath, [program, '--model', folder], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^found none of .*\n$/)]);
});
