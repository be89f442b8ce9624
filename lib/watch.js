'use strict';

// Watching for results that come soon. An event loop with nothing to do sleeps, and to wake its thread takes some tens of
// microseconds, as long as a small graph. So the loop goes round without sleeping while a result is expected within a
// moment: timers and input are served as ever. It is expected so where the last one came so, and was followed by the next
// request at once: who pauses between runs gets a sleeping loop.

const os = require('node:os');
const { performance } = require('node:perf_hooks');
const timers = require('node:timers');

// Taken while they are Node's own; a test of script's may replace them later.
const { setImmediate } = timers;
const now = performance.now.bind(performance);

/** Results that take longer, in milliseconds, are worth a sleep. */
const SOON = 2.5;
/** Those that take no longer leave the other threads of their context asleep. */
const AT_ONCE = 0.1;
/** From a result to the next request, at most. */
const PAUSE = 0.3;

/** @typedef {import('./states').ContextState} ContextState */

/** Until when the loop stays awake; something is watched for meanwhile. */
let until = 0;
let isAwake = false;
/** How many results are watched for. */
let watched = 0;

const cores = os.availableParallelism();

/**
 * What is known of a context's requests.
 * @param {number} numThreads 0 for all that there are
 */
function habits(numThreads) {
  // Where all cores compute, watching would take one of them away.
  return { longest: numThreads > 0 && numThreads < cores ? SOON : AT_ONCE, took: Infinity, began: 0, ended: 0 };
}

/**
 * A request has been made whose result script waits for.
 * @param {ContextState} context
 */
function expect({ habits }) {
  const time = now();
  watched += 1;
  habits.began = time;
  if (habits.took > habits.longest || time - habits.ended > PAUSE) return;
  until = Math.max(until, time + 2 * habits.took);
  if (isAwake) return;
  isAwake = true;
  setImmediate(look);
}

/**
 * Its result is here.
 * @param {ContextState} context
 */
function arrived({ habits }) {
  watched -= 1;
  habits.ended = now();
  habits.took = habits.ended - habits.began;
}

/** One round of the event loop. */
function look() {
  if (watched > 0 && now() < until) setImmediate(look);
  else isAwake = false;
}

module.exports = { arrived, expect, habits };
