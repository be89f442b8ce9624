'use strict';

// Limits how many runs of a context may be unfinished (docs/extensions.md C21).

const { setImmediate } = require('node:timers');
const { exception, named } = require('./errors.js');

class Queue {
  #most;
  /** In the order of the calls, with the time of each. @type {Set<{began: number}>} */
  #runs = new Set();
  /** What begins now belongs to a run that was counted. */
  #isInside = false;
  /** Who waits for room. @type {{resolve: () => void, reject: (reason: unknown) => void}[]} */
  #waiting = [];

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
    if (!this.#hasRoom) throw this.#refusal(operator, label);
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

  get #hasRoom() {
    return this.#runs.size < this.#most;
  }

  #refusal(operator, label) {
    const waiting = this.#runs.size;
    const [oldest] = this.#runs;
    const waitingFor = oldest === undefined ? 0 : performance.now() - oldest.began;
    const found = `found ${waiting} unfinished runs of the context, the oldest since ${Math.round(waitingFor)} ms`;
    const error = exception('QuotaExceededError', `${named(operator, label)}: ${found}, allowed at most ${this.#most} (maxQueue): wait for context.ready()`);
    for (const [name, value] of Object.entries({ waiting, waitingFor })) Object.defineProperty(error, name, { value, configurable: true });
    return error;
  }

  /**
   * Resolves when there is room, for whoever has asked first.
   * @returns {Promise<void>}
   */
  ready() {
    if (this.#hasRoom && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Whoever waits is told when the one before has had its turn: it may need no room after all. */
  #letIn() {
    if (!this.#hasRoom || this.#waiting.length === 0) return;
    this.#waiting.shift().resolve();
    if (this.#waiting.length > 0) setImmediate(() => this.#letIn());
  }

  /** The context is gone. */
  end(reason) {
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
  }
}

module.exports = { Queue };
