'use strict';

// Texts that wait are computed together, also those of different requests.

const { setMaxListeners } = require('node:events');

/**
 * One text that waits.
 * @typedef {{ value: any, length: number, signal: AbortSignal | undefined, resolve: (result: any) => void, reject: (error: any) => void, leave: () => void }} Job
 */

class Batches {
  #compute;
  #rows;
  #elements;
  /** @type {Job[]} */
  #waiting = [];
  #isRunning = false;

  /**
   * @param {(values: any[], signal: AbortSignal) => Promise<any[]>} compute
   * @param {{rows?: number, elements?: number}} [options] the most texts of a run, and the most tokens with the padding
   */
  constructor(compute, { rows = 32, elements = 16384 } = {}) {
    this.#compute = compute;
    this.#rows = rows;
    this.#elements = elements;
  }

  /**
   * @param {any} value
   * @param {number} length in tokens
   * @param {AbortSignal} [signal] rejects with its reason; a run ends when nobody wants it
   * @returns {Promise<any>}
   */
  add(value, length, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const leave = () => this.#drop(job);
      const job = { value, length, signal, resolve, reject, leave };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(job);
      // What comes in the same turn of the event loop is computed together, too.
      if (!this.#isRunning) {
        this.#isRunning = true;
        setImmediate(() => this.#run());
      }
    });
  }

  #drop(job) {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    job.reject(job.signal.reason);
  }

  /** The text that waits longest, and those whose lengths are nearest to its own. */
  #take() {
    const [first] = this.#waiting;
    const distance = ({ length }) => Math.abs(length - first.length);
    const near = this.#waiting.filter((job) => distance(job) <= 16 || Math.max(job.length, first.length) <= 2 * Math.min(job.length, first.length));
    const jobs = [...new Set([first, ...near.sort((a, b) => distance(a) - distance(b))])];
    let count = 0;
    let longest = 0;
    while (count < Math.min(jobs.length, this.#rows)) {
      longest = Math.max(longest, jobs[count].length);
      if (count > 0 && longest * (count + 1) > this.#elements) break;
      count++;
    }
    // Each number of rows needs a plan, so only powers of two are taken.
    const taken = new Set(jobs.slice(0, 2 ** Math.floor(Math.log2(count))));
    this.#waiting = this.#waiting.filter((job) => !taken.has(job));
    return [...taken];
  }

  async #run() {
    while (this.#waiting.length > 0) {
      const jobs = this.#take();
      const unwanted = new AbortController();
      setMaxListeners(0, unwanted.signal);
      const check = () => {
        if (jobs.every(({ signal }) => signal?.aborted)) unwanted.abort();
      };
      for (const { signal } of jobs) signal?.addEventListener('abort', check, { once: true });
      try {
        const results = await this.#compute(jobs.map(({ value }) => value), unwanted.signal);
        jobs.forEach((job, i) => job.resolve(results[i]));
      } catch (error) {
        for (const job of jobs) job.reject(error);
      }
      for (const { signal, leave } of jobs) {
        signal?.removeEventListener('abort', check);
        signal?.removeEventListener('abort', leave);
      }
    }
    this.#isRunning = false;
  }
}

module.exports = { Batches };
