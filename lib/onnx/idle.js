'use strict';

// A pool of tensor sets that no run uses at the moment. All plans of a model share it.

const timers = require('node:timers');

// Taken while it is Node's own; a test of script's may replace it later.
const { setTimeout } = timers;

/** Bytes that idle sets have together at most, but one set is kept whatever it has. */
const MOST = 64 << 20;
/** Milliseconds after the last run for which they are kept. */
const KEPT = 5000;

/** @typedef {{bytes: number}} Plan whose runs all take sets of so many bytes */

class Idle {
  /** @type {Map<Plan, object[]>} the plan whose sets were put back longest ago first */
  #sets = new Map();
  #size = 0;
  #bytes = 0;
  #release;
  #timer;

  /** @param {(set: object) => void} release */
  constructor(release) {
    this.#release = release;
  }

  /** How many sets there are. */
  get size() {
    return this.#size;
  }

  /**
   * A set for a plan, if there is one, which then belongs to the caller.
   * @param {Plan} plan
   */
  take(plan) {
    const sets = this.#sets.get(plan);
    if (sets === undefined) return undefined;
    const set = sets.pop();
    if (sets.length === 0) this.#sets.delete(plan);
    this.#size--;
    this.#bytes -= plan.bytes;
    return set;
  }

  /**
   * Keeps a set for a plan. Where there are too many then those go that were not used for longest.
   * @param {Plan} plan
   */
  put(plan, set) {
    const sets = this.#sets.get(plan) ?? [];
    sets.push(set);
    this.#sets.delete(plan);
    this.#sets.set(plan, sets);
    this.#size++;
    this.#bytes += plan.bytes;
    while (this.#bytes > MOST && this.#size > 1) {
      const [oldest] = this.#sets.keys();
      this.#release(this.take(oldest));
    }
    this.#timer ??= setTimeout(() => this.clear(), KEPT).unref();
    this.#timer.refresh();
  }

  /**
   * Releases the sets of a plan.
   * @param {Plan} plan
   */
  forget(plan) {
    for (let set = this.take(plan); set !== undefined; set = this.take(plan)) this.#release(set);
  }

  /** Releases all sets. */
  clear() {
    for (const plan of [...this.#sets.keys()]) this.forget(plan);
  }
}

module.exports = { Idle, KEPT, MOST };
