'use strict';

// How many requests a model was asked for, and how many runs they were; each run is published (docs/profiling.md).

const { batched } = require('../../diagnostics.js');

class Counts {
  #model;
  #numbers = { requests: 0, runs: 0, joined: 0, filled: 0 };

  /** @param {import('../model.js').Model} model */
  constructor(model) {
    this.#model = model;
  }

  /** For script. */
  describe() {
    return { ...this.#numbers };
  }

  request() {
    this.#numbers.requests++;
  }

  /** A run of one request begins. */
  single(rows, began = undefined) {
    this.#numbers.runs++;
    this.publish(1, rows, began);
  }

  /** A run of several requests has ended; whether texts were filled up in it. */
  joined(size, areFilled) {
    this.#numbers.runs++;
    this.#numbers.joined += size;
    if (areFilled) this.#numbers.filled += size;
  }

  /**
   * Tells who wants to know that a run begins.
   * @param {number} size its requests
   * @param {number} rows
   * @param {number | undefined} began when the first request was made; nothing if it has not waited
   */
  publish(size, rows, began) {
    const { label, contextState } = this.#model;
    batched(() => ({ label, device: contextState.device, size, rows, waited: began === undefined ? 0 : performance.now() - began }));
  }
}

module.exports = { Counts };
