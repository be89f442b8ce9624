'use strict';

// Polls for results that are expected soon. An idle event loop sleeps, and waking its thread takes some tens of microseconds, as long as a small
// graph. So the loop goes round without sleeping while a result is expected within a moment; timers and input are served as usual.
//
// * A result is expected soon if the last one came soon and the next request followed at once, several times.
// * A loop that polled without a result sleeps for a while: the two threads may share a core, and then polling delays the work.
// * If a result takes longer, the loop sleeps until shortly before.

const { performance } = require('node:perf_hooks');
const timers = require('node:timers');
const native = require('./native.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { clearTimeout, setImmediate, setTimeout } = timers;
const now = performance.now.bind(performance);

/** Results that take longer, in milliseconds, are worth a sleep. */
const SOON = 2.5;
/** The loop wakes up so long before, at most; timers are late by up to a millisecond. */
const BEFORE = 2;
/** How much later than usual a result is still waited for. */
const AFTER = 4;
/** Those that take longer still gain nothing by it. */
const LONG = 100;
/** Those that take no longer leave the other threads of their context asleep. */
const AT_ONCE = 0.1;
/** From a result to the next request, at most. */
const PAUSE = 0.3;
/** How many results have to come soon before one is polled for: at first, and later. After a poll without a result the number doubles. */
const FIRST = 16;
const AGAIN = 4;
const MOST = 4096;
/** How fast what is usual follows results that take longer: most of those were only held up. */
const RISE = 1.02;

/** @typedef {import('./states').ContextState} ContextState */

/** Until when the loop stays awake, while some result is waited for. */
let until = 0;
let isAwake = false;
/** How many results are waited for. */
let expected = 0;

/**
 * What is known of a context's requests.
 * @param {boolean} leavesCore whether its threads leave a core to script; else polling would take one away from them
 */
function habits(leavesCore) {
  const longest = leavesCore ? LONG : AT_ONCE;
  return { longest, usual: Infinity, began: 0, ended: 0, quick: 0, enough: FIRST, missed: 0, until: Infinity, timer: undefined };
}

/**
 * A request has been made whose result script waits for.
 * @param {ContextState} context
 */
function expect({ habits }) {
  const time = now();
  expected += 1;
  habits.began = time;
  habits.until = Infinity;
  habits.quick = habits.usual > habits.longest || time - habits.ended > PAUSE ? 0 : habits.quick + 1;
  if (habits.quick < habits.enough) return;
  habits.until = time + Math.min(1.5 * habits.usual + 0.05, habits.usual + AFTER);
  if (habits.usual <= SOON) stayAwake(habits);
  else habits.timer = setTimeout(stayAwake, habits.usual - BEFORE, habits).unref();
}

function stayAwake(habits) {
  until = Math.max(until, habits.until);
  if (isAwake) return;
  isAwake = true;
  setImmediate(poll);
}

/**
 * Its result is here.
 * @param {ContextState} context
 */
function arrived({ habits }) {
  expected -= 1;
  clearTimeout(habits.timer);
  habits.ended = now();
  habits.usual = Math.min(habits.ended - habits.began, RISE * habits.usual);
  if (habits.until === Infinity) return;
  if (habits.ended <= habits.until) {
    habits.enough = AGAIN;
    habits.missed = 0;
  } else {
    habits.enough = Math.min(2 * AGAIN * 2 ** habits.missed, MOST);
    habits.missed += 1;
    habits.quick = 0;
  }
}

/** One round of the event loop. */
function poll() {
  if (expected > 0 && now() < until) {
    native.settleSoon();
    setImmediate(poll);
  } else isAwake = false;
}

/** Whether the loop goes round without sleeping. */
const isPolling = () => isAwake;

module.exports = { arrived, expect, habits, isPolling };
