'use strict';

// Work on script's thread that would last too long for one turn of the event loop is done in slices. All that has some shares the
// thread: each turn has one slice of one of them, in the order in which they asked.

const { performance } = require('node:perf_hooks');
const { setImmediate } = require('node:timers');

/** How long a slice is, in milliseconds: then what is under way is finished, a call of the device at most. */
const SLICE = 2;

/** What waits for its turn. @type {(() => void)[]} */
const waiting = [];

function serve() {
  waiting.shift()();
  if (waiting.length > 0) setImmediate(serve);
}

/** Work in slices. It begins with `next()`. */
class Turns {
  #end = -Infinity;

  /** Whether the slice has lasted long enough. */
  get isOver() {
    return performance.now() >= this.#end;
  }

  /** Waits for a turn, where this one is over. */
  async next() {
    if (!this.isOver) return;
    await new Promise((resolve) => {
      waiting.push(() => resolve(undefined));
      if (waiting.length === 1) setImmediate(serve);
    });
    this.#end = performance.now() + SLICE;
  }
}

module.exports = { Turns };
