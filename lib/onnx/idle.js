'use strict';

// Sets of tensors that no run uses at the moment, kept for runs to come.

const timers = require('node:timers');

// Taken while it is Node's own; a test of script's may replace it later.
const { setTimeout } = timers;

/** Bytes that idle sets have together at most, but one set is kept whatever it has. */
const MOST = 64 << 20;
/** Milliseconds after the last run for which they are kept. */
const KEPT = 5000;

class Idle {
  #sets = [];
  #each;
  #release;
  #timer;

  /**
   * @param {number} bytes of one set
   * @param {(set: object) => void} release
   */
  constructor(bytes, release) {
    this.#each = bytes;
    this.#release = release;
  }

  /** How many sets there are. */
  get size() {
    return this.#sets.length;
  }

  /** A set, if there is one, which then belongs to the caller. */
  take() {
    return this.#sets.pop();
  }

  /** Keeps a set, or releases it where there are enough. */
  put(set) {
    if (this.size > 0 && (this.size + 1) * this.#each > MOST) {
      this.#release(set);
      return;
    }
    this.#sets.push(set);
    this.#timer ??= setTimeout(() => this.clear(), KEPT).unref();
    this.#timer.refresh();
  }

  /** Releases all sets. */
  clear() {
    for (const set of this.#sets.splice(0)) this.#release(set);
  }
}

module.exports = { Idle, KEPT, MOST };
