'use strict';

// The event loop stays awake for results that come soon.

const { setImmediate: nextRound } = require('node:timers/promises');
const { arrived, expect: watchFor, habits } = require('../lib/watch.js');

const isAwake = () => process.getActiveResourcesInfo().includes('Immediate');

/** A context whose last result took so many milliseconds and came just now. */
const context = (took) => ({ habits: { ...habits(1), took, ended: Infinity } });

test('the loop goes round while a result is expected, and no longer', async () => {
  const quick = context(0.05);
  watchFor(quick);
  expect(isAwake()).toBe(true);
  arrived(quick);
  await nextRound();
  await nextRound();
  expect(isAwake()).toBe(false);
});

test('a result that does not come is not waited for', async () => {
  const late = context(0);
  watchFor(late);
  expect(isAwake()).toBe(true);
  await nextRound();
  await nextRound();
  expect(isAwake()).toBe(false);
  arrived(late);
});

test.each([
  ['the first result', { took: Infinity }],
  ['what takes long', { took: 100 }],
  ['what comes after a pause', { ended: -Infinity }],
])('the loop sleeps for %s', (_, known) => {
  const sleepy = context(0.05);
  Object.assign(sleepy.habits, known);
  watchFor(sleepy);
  expect(isAwake()).toBe(false);
  arrived(sleepy);
});

test('where all cores compute only the shortest results are watched for', () => {
  expect(habits(0).longest).toBeLessThan(0.2);
  expect(habits(1e6).longest).toBe(habits(0).longest);
});
