'use strict';

// The event loop stays awake for results that come soon.

const { availableParallelism } = require('node:os');
const { setImmediate: nextRound, setTimeout: passed } = require('node:timers/promises');
const { ml } = require('..');
const { leavesCore } = require('../lib/cores.js');
const native = require('../lib/native.js');
const { arrived, expect: watchFor, habits, isPolling } = require('../lib/event-loop-polling.js');

const immediates = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Immediate').length;

/** A context whose results usually take so many milliseconds; the latest came just now. */
const context = (usual) => ({ habits: { ...habits(true), usual, ended: Infinity, quick: 1000 } });

test('the loop goes round while a result is expected, and no longer', async () => {
  const quick = context(0.05);
  // Others of this process may have some, too.
  const before = immediates();
  watchFor(quick);
  expect(immediates()).toBe(before + 1);
  expect(isPolling()).toBe(true);
  arrived(quick);
  await nextRound();
  await nextRound();
  expect(isPolling()).toBe(false);
});

test('a result that does not come is not waited for', async () => {
  const late = context(-1);
  watchFor(late);
  expect(isPolling()).toBe(true);
  await nextRound();
  await nextRound();
  expect(isPolling()).toBe(false);
  arrived(late);
});

test.each([
  ['the first result', { usual: Infinity }],
  ['what takes very long', { usual: 1000 }],
  ['what comes after a pause', { ended: -Infinity }],
  ['the first ones that come soon', { quick: 0 }],
])('the loop sleeps for %s', (_, known) => {
  const sleepy = context(0.05);
  Object.assign(sleepy.habits, known);
  watchFor(sleepy);
  expect(isPolling()).toBe(false);
  arrived(sleepy);
});

test('the loop sleeps until shortly before a result that takes longer', async () => {
  const long = context(20);
  watchFor(long);
  expect(isPolling()).toBe(false);
  while (!isPolling()) await nextRound();
  arrived(long);
  await nextRound();
  await nextRound();
  expect(isPolling()).toBe(false);
});

test('the loop does not wake up for a result that is there already', async () => {
  const [long, other] = [context(20), context(1000)];
  watchFor(other);
  watchFor(long);
  arrived(long);
  // Timers end in the order of their times.
  await passed(20);
  expect(isPolling()).toBe(false);
  arrived(other);
});

test('what was watched for in vain is left alone for a while, longer each time', () => {
  const late = context(0.05);
  const waits = [0, 0, 0, Infinity].map((until) => {
    watchFor(late);
    late.habits.until = until - 1;
    arrived(late);
    return late.habits.enough;
  });
  expect(waits[1]).toBe(2 * waits[0]);
  expect(waits[2]).toBe(4 * waits[0]);
  expect(waits[3]).toBe(waits[2]);
  watchFor(late);
  late.habits.until = 1e300;
  arrived(late);
  expect(late.habits).toMatchObject({ enough: waits[0] / 2, missed: 0 });
});

test('where all cores compute only the shortest results are watched for', () => {
  expect([0, 1e6].map(leavesCore)).toEqual([false, false]);
  expect(leavesCore(1)).toBe(availableParallelism() > 1);
  expect(habits(false).longest).toBeLessThan(0.2);
  expect(habits(true).longest).toBeGreaterThan(1);
});

test('a look settles what is ready without a round of the event loop, and others are woken for as before', async () => {
  const context = await ml.createContext({ accelerated: false });
  const tensor = await context.createTensor({ dataType: 'float32', shape: [3], readable: true, writable: true });
  for (let round = 0; round < 20; round++) {
    let hasGoneRound = false;
    const immediate = setImmediate(() => (hasGoneRound = true));
    let bytes;
    const read = context.readTensor(tensor).then((buffer) => (bytes = buffer));
    // Only microtasks run between the looks.
    for (let looks = 0; bytes === undefined && looks < 1e6; looks++) {
      native.settleSoon();
      await undefined;
    }
    expect(hasGoneRound).toBe(false);
    expect(bytes?.byteLength).toBe(12);
    clearImmediate(immediate);
    await read;
    native.settleSoon();
    expect((await context.readTensor(tensor)).byteLength).toBe(12);
  }
  context.destroy();
});
