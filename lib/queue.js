'use strict';

// Limits how many runs of a context may be unfinished (docs/extensions.md C21).

const { setImmediate } = require('node:timers');
const { failed } = require('./diagnostics.js');
const { exception, named } = require('./errors.js');

class Queue {
  #most;
  /** In the order of the calls, with the time of each. @type {Set<{began: number}>} */
  #runs = new Set();
  /** What begins now belongs to a run that was counted. */
  #isInside = false;
  /** Who waits for room. @type {{resolve: () => void, reject: (reason: unknown) => void}[]} */
  #waiting = [];
  /** Places for those who were told in this turn of the event loop that there is room, and have not begun a run since. */
  #promised = 0;

  /** @param {number} most */
  constructor(most) {
    this.#most = most;
  }

  /**
   * A run begins. Throws a QuotaExceededError where there would be too many.
   * @param {string} operator
   * @param {string} label
   * @returns {(() => void) | undefined} is called when it has ended
   */
  enter(operator, label) {
    if (this.#isInside) return undefined;
    if (this.#runs.size >= this.#most) throw this.#refusal(operator, label);
    if (this.#promised > 0) this.#promised--;
    const run = { began: performance.now() };
    this.#runs.add(run);
    return () => {
      if (this.#runs.delete(run)) this.#letIn();
    };
  }

  /**
   * Does something that belongs to a run which was counted.
   * @param {() => void} work
   */
  inside(work) {
    this.#isInside = true;
    try {
      work();
    } finally {
      this.#isInside = false;
    }
  }

  /** Whether somebody may be told that there is room. */
  get #hasRoom() {
    return this.#runs.size + this.#promised < this.#most;
  }

  #refusal(operator, label) {
    const waiting = this.#runs.size;
    const [oldest] = this.#runs;
    const waitingFor = oldest === undefined ? 0 : performance.now() - oldest.began;
    const found = `found ${waiting} unfinished runs of the context, the oldest since ${Math.round(waitingFor)} ms`;
    const error = exception('QuotaExceededError', `${named(operator, label)}: ${found}, allowed at most ${this.#most} (maxQueue): wait for context.ready()`);
    for (const [name, value] of Object.entries({ waiting, waitingFor })) Object.defineProperty(error, name, { value, configurable: true });
    failed({ operator, label }, error);
    return error;
  }

  /**
   * Resolves when there is room, for whoever has asked first. The place is kept until the end of this turn of the event loop.
   * @returns {Promise<void>}
   */
  ready() {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#letIn();
    });
  }

  /** Tells as many as there is room for. Those who need no room after all leave it to the next ones when the turn ends. */
  #letIn() {
    while (this.#waiting.length > 0 && this.#hasRoom) {
      if (this.#promised++ === 0) setImmediate(() => this.#endTurn());
      this.#waiting.shift().resolve();
    }
  }

  #endTurn() {
    this.#promised = 0;
    this.#letIn();
  }

  /** The context is gone. */
  end(reason) {
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
  }
}

module.exports = { Queue };
