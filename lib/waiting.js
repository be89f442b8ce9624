'use strict';

// Counts the unfinished work of a context that the native side does not count (src/timeline/waiting.rs): work that waits for a tensor in WebGPU, and
// work on a GPUDevice (docs/extensions.md C17).

const { named } = require('./errors.js');

/** So much may wait. Each takes some hundred bytes, and a caller that never waits for any would ask for more without end. */
const MOST_WAITING = 1 << 20;

class Waiting {
  #count = 0;
  #most;

  constructor(most = MOST_WAITING) {
    this.#most = most;
  }

  /**
   * Counts tasks that begin to wait. Throws a Cause where there would be too many.
   * @param {string} operator
   * @param {string} label
   * @param {number} [count]
   */
  admit(operator, label, count = 1) {
    const now = this.#count;
    if (count > this.#most - now) {
      throw {
        code: 'OperationError',
        message: `${named(operator, label)}: found ${now} unfinished tasks of the context, and ${count} more, allowed at most ${this.#most}: wait for some, for example with readTensor()`,
      };
    }
    this.#count += count;
  }

  done(count = 1) {
    this.#count -= count;
  }
}

module.exports = { MOST_WAITING, Waiting };
