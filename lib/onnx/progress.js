'use strict';

// Tells a caller how much of a model is loaded: bytes of streams as they arrive, then those of files as they are read.

const timers = require('node:timers');
const native = require('../native.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { clearInterval, setInterval } = timers;

/** Milliseconds between looks at how much of the files was read. */
const EVERY = 100;

class Progress {
  #report;
  #loaded = 0;
  /** @type {number | undefined} */
  #total;
  #timer;
  /** What the caller's function has thrown. @type {{reason: unknown} | undefined} */
  #failure;
  /** Of the files, once they are open. @type {number | undefined} */
  #ofFiles;

  /**
   * @param {((progress: {loaded: number, total: number | undefined}) => void) | undefined} report
   * @param {AbortSignal} [signal] Once it is aborted nothing is reported.
   */
  constructor(report, signal) {
    if (report === undefined) return;
    this.#report = (progress) => {
      if (!signal?.aborted) report(progress);
    };
  }

  /**
   * Streams of these lengths will arrive.
   * @param {(number | undefined)[]} totals
   */
  expect(totals) {
    this.#total = totals.every(Number.isSafeInteger) ? totals.reduce((sum, total) => sum + total, 0) : undefined;
  }

  /** So many bytes have arrived. */
  received(length) {
    this.#loaded += length;
    this.#report?.({ loaded: this.#loaded, total: this.#total });
  }

  /**
   * A model is being read.
   * @param {number} handle
   */
  follow(handle) {
    if (this.#report === undefined) return;
    this.#timer = setInterval(() => {
      try {
        this.look(handle);
      } catch (reason) {
        this.#failure = { reason };
        clearInterval(this.#timer);
      }
    }, EVERY).unref();
  }

  /**
   * Tells what was read of its files so far.
   * @param {number} handle
   */
  look(handle) {
    if (this.#report === undefined) return;
    const [read, length] = native.onnxProgress(handle) ?? [];
    if (length === undefined) return;
    const isNews = read > this.#loaded || length !== this.#ofFiles;
    this.#ofFiles = length;
    if (!isNews || read < this.#loaded || read === length) return;
    this.#loaded = read;
    this.#report({ loaded: read, total: length });
  }

  /**
   * Loads a model. If the caller's function throws, this rejects with the reason, and the model is destroyed.
   * @template {{destroy(): void}} T
   * @param {() => Promise<T>} load
   * @returns {Promise<T>}
   */
  async during(load) {
    let model;
    try {
      model = await load();
      if (this.#failure !== undefined) throw this.#failure.reason;
      // What need not be read is loaded, too.
      if (this.#ofFiles !== undefined) this.#report({ loaded: this.#ofFiles, total: this.#ofFiles });
      return model;
    } catch (error) {
      model?.destroy();
      throw error;
    } finally {
      clearInterval(this.#timer);
    }
  }
}

module.exports = { Progress };
