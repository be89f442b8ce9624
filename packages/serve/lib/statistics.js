'use strict';

// What each version of a model has done, for metrics and for Triton's statistics.

/** Nanoseconds and how often. */
class Duration {
  count = 0;
  ns = 0;

  add(ms) {
    this.count++;
    this.ns += Math.round(ms * 1e6);
  }

  toJSON() {
    return { count: this.count, ns: this.ns };
  }
}

/** Why requests fail, as Triton sorts them. */
const REASONS = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'];

/** A call of a model. @typedef {{ called: number, started: number | undefined }} Request */

/** What the messages of webnn-node call a version of a model. */
const labelOf = (name, version) => `${name}/${version}`;

class Statistics {
  success = new Duration();
  fail = new Duration();
  /** From the arrival to the call of the model: reading the request. */
  input = new Duration();
  infer = new Duration();
  output = new Duration();
  /** Rows of all requests. */
  inferences = 0;
  /** Milliseconds since 1970. */
  last = 0;
  /** From the call of the model to the start of its run. */
  queue = new Duration();
  /** Requests whose run has not started, the oldest first. @type {Set<Request>} */
  #waiting = new Set();
  failures = Object.fromEntries(REASONS.map((reason) => [reason, 0]));
  /** Runs before the model was loaded again, apart from those that were joined. */
  #before = 0;
  #successBefore = 0;
  #isOfTexts = false;
  #onnx;

  constructor(name, version) {
    this.name = name;
    this.version = version;
  }

  /** The model is loaded, or loaded again. @param {any} onnx @param {any} [text] what a model of the hub does with text */
  follow(onnx, text = undefined) {
    this.#before = this.executions;
    this.#successBefore = this.success.count;
    this.#onnx = onnx;
    this.#isOfTexts = text !== undefined;
  }

  /** Runs of the model: less than requests if some were joined. */
  get executions() {
    const batching = this.#onnx?.batching;
    // A request has several texts, each of which is a run, or one of those that were joined.
    if (this.#isOfTexts && batching !== undefined) return this.#before + batching.runs;
    return this.#before + this.success.count - this.#successBefore - (batching === undefined ? 0 : batching.requests - batching.runs);
  }

  /** Requests whose run has not started. Of a model whose runs are not joined none is known to wait. */
  get pending() {
    return this.#waiting.size;
  }

  /** The model is called. @returns {Request} */
  call() {
    const request = { called: performance.now(), started: undefined };
    if (this.#onnx?.batching !== undefined) this.#waiting.add(request);
    return request;
  }

  /** A run of so many requests starts. */
  start(size) {
    const now = performance.now();
    for (const request of this.#waiting) {
      if (size-- === 0) break;
      request.started = now;
      this.#waiting.delete(request);
    }
  }

  /** The call has ended. @param {Request} request */
  end(request) {
    this.#waiting.delete(request);
  }

  /** A request for text, whose parts are not timed. @param {number} ms */
  answered(ms) {
    this.success.add(ms);
    this.infer.add(ms);
    this.inferences++;
    this.last = Date.now();
  }

  /** @param {'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER'} reason @param {number} ms */
  failed(reason, ms) {
    this.failures[reason]++;
    this.fail.add(ms);
  }

  /** As Triton's statistics have it. @param {any} onnx the model, if it is loaded */
  describe(onnx) {
    const { name, version, last, inferences, success, fail, queue, input, infer, output } = this;
    const memory = onnx?.memoryUsage();
    return {
      name,
      version,
      last_inference: last,
      inference_count: inferences,
      execution_count: Math.max(0, this.executions),
      inference_stats: { success, fail, queue, compute_input: input, compute_infer: infer, compute_output: output, cache_hit: new Duration(), cache_miss: new Duration() },
      response_stats: {},
      batch_stats: [],
      memory_usage: memory === undefined ? [] : [{ type: 'CPU', id: 0, byte_size: totalOf(memory) }],
    };
  }
}

const totalOf = ({ tensors, graphs, sources, plans, scratch, caches, pendingWrites }) => tensors + graphs + sources + plans + scratch + caches + pendingWrites;

/** Those of all versions of all models that were ever loaded. */
class AllStatistics {
  /** By label. @type {Map<string, Statistics>} */
  #all = new Map();

  /** @returns {Statistics | undefined} */
  labelled(label) {
    return this.#all.get(label);
  }

  /** @returns {Statistics} */
  of(name, version) {
    const key = labelOf(name, version);
    let found = this.#all.get(key);
    if (found === undefined) this.#all.set(key, (found = new Statistics(name, version)));
    return found;
  }

  values() {
    return [...this.#all.values()];
  }
}

module.exports = { AllStatistics, labelOf };
