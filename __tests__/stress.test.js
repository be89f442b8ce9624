'use strict';

// The short form of `npm run stress`: random programs, and threads that end at random moments.

const { execFile } = require('node:child_process');
const path = require('node:path');
const { promisify } = require('node:util');
const webnn = require('..');
const { runProgram } = require('./stress/programs.js');
const { chooseSeed, generator } = require('./stress/random.js');
const { ServerSoak } = require('./stress/server.js');
const { runRound } = require('./stress/workers.js');

const seed = chooseSeed();

test('C1, C5, C8: random programs read what a sequential model reads, and no promise stays pending', async () => {
  let promises = 0;
  for (let i = 0; i < 40; i++) promises += await runProgram(webnn, seed + i, 150);
  expect(promises).toBeGreaterThan(1000);
});

test('the generator repeats itself', () => {
  const [first, second] = [generator(7), generator(7)];
  expect(Array.from({ length: 9 }, () => first(100))).toEqual(Array.from({ length: 9 }, () => second(100)));
});

test('A5: threads under load end at random moments', async () => {
  for (let round = 0; round < 2; round++) await runRound(seed + round, 300);
});

test('C11, C18: loads, unloads, limits, lost contexts, and threads and processes that share a cache', async () => {
  // In a process of its own, since a process has one cache.
  const program = path.join(__dirname, 'stress', 'long.js');
  const { stdout } = await promisify(execFile)(process.execPath, [program, 'memory', '--steps', '60'], { env: { ...process.env, WEBNN_SEED: String(seed) } });
  expect(stdout).toContain('nothing went wrong');
});

test('every call of clients that come, go, cancel and set deadlines is settled once', async () => {
  const server = new ServerSoak(seed);
  await server.start();
  for (let i = 0; i < 20; i++) await server.step();
  await server.end();
  expect(server.counts.answered).toBeGreaterThan(0);
  expect(server.counts.cancelled).toBeGreaterThan(0);
});
