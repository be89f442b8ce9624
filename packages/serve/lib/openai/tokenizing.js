'use strict';

// Tokenizes texts without keeping the event loop: long ones in a thread of their own, where requests share the time.

const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { ApiError } = require('./errors.js');

const LIMITS = {
  /** Characters that are tokenized at once: about a millisecond. */
  here: 1024,
  /** Characters of a slice, if there are several texts. */
  slice: 8192,
  /** Milliseconds of a slice. Some texts without spaces take very long. */
  timeout: 20_000,
  /** Megabytes of the thread's heap. */
  memory: 1024,
};

/**
 * A text, or two, with or without the tokens around them.
 * @typedef {{text: string, pair?: string, special?: boolean}} Text
 * @typedef {{ids: number[], types: number[]}} Row
 * @typedef {{texts: Text[], rows: Row[], signal: AbortSignal | undefined, resolve: (rows: Row[]) => void, reject: (error: any) => void}} Job
 */

const lengthOf = ({ text, pair = '' }) => text.length + pair.length;

class Tokenizing {
  #tokenizer;
  #source;
  #limits;
  /** @type {Worker | undefined} */
  #worker;
  /** The first one has the next slice. @type {Job[]} */
  #jobs = [];
  /** What ends the slice that is under way. @type {((result: {rows?: Row[], error?: Error}) => void) | undefined} */
  #finish;

  /**
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {{json: string, config: object}} source of the same tokenizer: tokenizer.json as text, and tokenizer_config.json
   * @param {Partial<typeof LIMITS>} [limits]
   */
  constructor(tokenizer, source, limits = {}) {
    this.#tokenizer = tokenizer;
    this.#source = source;
    this.#limits = { ...LIMITS, ...limits };
  }

  /**
   * @param {Text[]} texts
   * @param {AbortSignal} [signal]
   * @returns {Promise<Row[]>}
   */
  async encode(texts, signal) {
    signal?.throwIfAborted();
    const characters = texts.reduce((sum, text) => sum + lengthOf(text), 0);
    if (characters <= this.#limits.here) return texts.map((text) => this.#tokenizer.encodeRow(text));
    return new Promise((resolve, reject) => {
      const job = { texts, rows: [], signal, resolve, reject };
      signal?.addEventListener('abort', () => this.#drop(job, signal.reason), { once: true });
      this.#jobs.push(job);
      this.#work();
    });
  }

  /** Ends the thread. What waits is rejected. */
  destroy() {
    const error = new Error('the model was unloaded');
    for (const { reject } of this.#jobs.splice(0)) reject(error);
    this.#end(error);
  }

  /** A slice goes on until its end, and nobody reads the result. */
  #drop(job, reason) {
    this.#jobs = this.#jobs.filter((one) => one !== job);
    job.reject(reason);
  }

  async #work() {
    if (this.#finish !== undefined) return;
    while (this.#jobs.length > 0) {
      const job = this.#jobs.shift();
      let characters = 0;
      const texts = job.texts.slice(job.rows.length).filter((text, i) => (characters += lengthOf(text)) <= this.#limits.slice || i === 0);
      const { rows, error } = await this.#ask(texts);
      if (error !== undefined) {
        job.reject(error);
        continue;
      }
      job.rows.push(...rows);
      if (job.rows.length === job.texts.length) job.resolve(job.rows);
      else if (!job.signal?.aborted) this.#jobs.push(job);
    }
  }

  /** @returns {Promise<{rows?: Row[], error?: Error}>} */
  #ask(texts) {
    const worker = (this.#worker ??= this.#start());
    return new Promise((resolve) => {
      const late = new ApiError(400, 'The text takes too long to tokenize.', { code: 'string_above_max_length' });
      const timer = setTimeout(() => this.#end(late), this.#limits.timeout);
      this.#finish = (result) => {
        clearTimeout(timer);
        this.#finish = undefined;
        worker.unref();
        resolve(result);
      };
      worker.ref();
      worker.postMessage(texts);
    });
  }

  #start() {
    const worker = new Worker(path.join(__dirname, 'tokenize-thread.js'), { workerData: this.#source, resourceLimits: { maxOldGenerationSizeMb: this.#limits.memory } });
    const only = (work) => (value) => {
      if (this.#worker === worker) work(value);
    };
    worker.on('message', only((result) => this.#finish?.(result.rows === undefined ? { error: new Error(result.error) } : result)));
    worker.on('error', only((error) => this.#end(error)));
    worker.on('exit', only((code) => this.#end(new Error(`the thread of the tokenizer exited with code ${code}`))));
    return worker;
  }

  /** Gives the thread up. The next slice starts another. */
  #end(error) {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#finish?.({ error });
    worker?.terminate();
  }
}

module.exports = { Tokenizing };
