'use strict';

// Divides work that would block the JavaScript thread for too long. Each turn of the event loop has one slice of one piece of work; pieces
// take turns in the order in which they asked.

const { performance } = require('node:perf_hooks');
const { setImmediate } = require('node:timers');

/** Milliseconds of a slice. The call of the device that is under way then is finished. */
const SLICE = 2;

/** Work that waits for a slice. @type {(() => void)[]} */
const waiting = [];

function serve() {
  waiting.shift()();
  if (waiting.length > 0) setImmediate(serve);
}

/** The slices of one piece of work. Call `next()` before it begins. */
class TimeSlices {
  #end = -Infinity;

  /** Whether the slice is over. */
  get isOver() {
    return performance.now() >= this.#end;
  }

  /** Waits for a slice if this one is over. */
  async next() {
    if (!this.isOver) return;
    await new Promise((resolve) => {
      waiting.push(() => resolve(undefined));
      if (waiting.length === 1) setImmediate(serve);
    });
    this.#end = performance.now() + SLICE;
  }
}

module.exports = { TimeSlices };
