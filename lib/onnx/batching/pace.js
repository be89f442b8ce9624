'use strict';

// Whether runs that wait are faster together or one by one. Both are tried: networks of some microseconds gain by being joined, while large ones
// have nothing to gain, and lose what padding costs and what runs side by side have for themselves.

/** A trial takes so many milliseconds at least, */
const LEAST_TIME = 100;
/** and so many requests for each one that was under way at the same time. */
const LEAST_TURNS = 4;
/** After so many trials of the faster way the other one is tried again. */
const AGAIN = 32;
/** The other way has to be faster by so much. */
const MARGIN = 1.03;

/** Measures both ways by what is done in the time in which several requests are under way. */
class Pace {
  #joins = true;
  #now;
  /** Work in a millisecond: one by one, and joined. @type {[number | undefined, number | undefined]} */
  #speeds = [undefined, undefined];
  /** How many are under way, waiting ones included. */
  #count = 0;
  #trial = newTrial();
  /** Trials of the same way. */
  #trials = 0;

  /** @param {() => number} now milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Whether runs that wait are to be joined. */
  get joins() {
    return this.#joins;
  }

  /** A request begins to wait or run. */
  begin() {
    // The time of a lone one is of no matter, and asking for it is a part of its own.
    if (this.#count > 0) this.#pass();
    this.#count++;
    this.#trial.most = Math.max(this.#trial.most, this.#count);
  }

  /**
   * A request has ended.
   * @param {number} work its elements
   */
  end(work) {
    if (this.#count > 1) this.#pass();
    this.#count--;
    const trial = this.#trial;
    // Those that were under way when the trial began are of the way before.
    if (trial.skips > 0) {
      trial.skips--;
      return;
    }
    trial.work += work;
    if (++trial.done >= LEAST_TURNS * trial.most && trial.most > 1 && trial.time >= LEAST_TIME) this.#decide();
  }

  /** Counts the time since the last event, if several were under way. */
  #pass() {
    const now = this.#now();
    if (this.#count > 1 && this.#trial.skips === 0) this.#trial.time += now - this.#trial.last;
    this.#trial.last = now;
  }

  /** Compares the ways when a trial has ended. One whose speed is not known is tried next. */
  #decide() {
    const [own, other] = this.#joins ? [1, 0] : [0, 1];
    this.#speeds[own] = this.#trial.work / this.#trial.time;
    if (++this.#trials >= AGAIN) this.#speeds[other] = undefined;
    const known = this.#speeds[other];
    const changes = known === undefined || known > this.#speeds[own] * MARGIN;
    if (changes) {
      this.#joins = !this.#joins;
      this.#trials = 0;
    }
    this.#trial = { ...newTrial(), last: this.#now(), most: this.#count, skips: changes ? this.#count : 0 };
  }
}

const newTrial = () => ({ time: 0, work: 0, done: 0, most: 0, skips: 0, last: 0 });

module.exports = { Pace };
