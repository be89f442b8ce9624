'use strict';

// Clients of two models with batching, of rows and of texts of different lengths: they come and go, cancel, set deadlines and priorities, and wait
// for room or are refused. Contexts are lost under them, and workers that do the same are ended. Every call is settled once, with what it would
// have got alone or with an error that it asked for.

const assert = require('node:assert');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setImmediate, setTimeout } = require('node:timers/promises');
const { Worker } = require('node:worker_threads');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { check, feeds, writeModels } = require('./models.js');
const { generator } = require('./random.js');
const { checkText, feedText, writeTexts } = require('./texts.js');

const MOST_CLIENTS = 24;
const MOST_WAITING = 20;
const MOST_ROWS = 6;
const MOST_TOKENS = 40;
const MODEL = 2;

const PRIORITIES = ['high', 'normal', 'low'];

class ServerSoak {
  #random;
  #folder;
  #isOwner;
  /** A context and what is loaded there; another one when it is lost. @type {{context: any, rows: any, texts: any, isLost: boolean}} */
  #server;
  /** How calls ended, by kind. */
  counts = { called: 0, answered: 0, cancelled: 0, late: 0, refused: 0, lost: 0 };
  /** What happened beside them. */
  events = { contexts: 0, workers: 0 };

  /**
   * @param {number} seed
   * @param {string} [folder] of a soak that has written the models: this one is a worker of it
   */
  constructor(seed, folder = undefined) {
    this.#random = generator(seed);
    this.#isOwner = folder === undefined;
    this.#folder = folder ?? fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-stress-'));
    if (!this.#isOwner) return;
    writeModels(this.#folder);
    writeTexts(this.#folder);
  }

  async start() {
    const context = await ml.createContext({ accelerated: false, maxQueue: MOST_WAITING });
    const load = (name) => loadOnnx(context, path.join(this.#folder, name), { batching: { maxSize: 16 } });
    const [rows, texts] = await Promise.all([load(`model-${MODEL}.onnx`), load('texts.onnx')]);
    this.#server = { context, rows, texts, isLost: false };
  }

  async end() {
    const { context, rows, texts } = this.#server;
    rows.destroy();
    texts.destroy();
    context.destroy();
    if (this.#isOwner) fs.rmSync(this.#folder, { recursive: true });
  }

  /** A round: some clients with some calls each, and now and then a context that is lost, or a worker that ends. */
  async step() {
    const clients = Array.from({ length: 1 + this.#random(MOST_CLIENTS) }, () => this.#client(1 + this.#random(8)));
    if (this.#random(8) === 0) clients.push(this.#lose());
    if (this.#isOwner && this.#random(8) === 0) clients.push(this.#worker());
    await Promise.all(clients);
    const { called, ...ended } = this.counts;
    assert.strictEqual(Object.values(ended).reduce((sum, count) => sum + count), called);
  }

  async #client(calls) {
    for (let i = 0; i < calls; i++) {
      await this.#call();
      // Some think before they ask again.
      if (this.#random(4) === 0) await setTimeout(this.#random(3));
    }
  }

  async #call() {
    const server = this.#server;
    // Some wait for room, of a context that may be lost meanwhile.
    if (this.#random(3) === 0) await server.context.ready().catch((error) => assert.ok(server.isLost, error));
    const reason = new Error('nobody waits for it any more');
    const [controller, hasSignal, isLate] = [new AbortController(), this.#random(4) === 0, this.#random(6) === 0];
    const options = { priority: PRIORITIES[this.#random(PRIORITIES.length)] };
    if (hasSignal) options.signal = controller.signal;
    if (isLate) options.timeout = this.#random(3);
    this.counts.called++;
    const result = this.#run(server, options).then(
      () => 'answered',
      (error) => {
        if (hasSignal && error === reason) return 'cancelled';
        if (isLate && error.name === 'TimeoutError') return 'late';
        if (error.name === 'QuotaExceededError' && error.waiting === MOST_WAITING) return 'refused';
        if (error.name === 'InvalidStateError' && server.isLost) return 'lost';
        throw error;
      },
    );
    if (hasSignal) {
      await (this.#random(2) === 0 ? setImmediate() : setTimeout(this.#random(4)));
      controller.abort(reason);
    }
    this.counts[await result]++;
  }

  /** Rows or a text, and whether the answer is right. */
  async #run({ rows, texts }, options) {
    const seed = this.#random(1 << 20);
    if (this.#random(2) === 0) {
      const count = 1 + this.#random(MOST_ROWS);
      check(MODEL, seed, count, await rows.run(feeds(seed, count), options));
    } else {
      const length = 1 + this.#random(MOST_TOKENS);
      checkText(seed, length, await texts.run(feedText(seed, length), options));
    }
  }

  /** The next context and its models are there before the last one is destroyed, so that later calls find one. */
  async #lose() {
    const server = this.#server;
    await this.start();
    server.isLost = true;
    server.context.destroy();
    server.rows.destroy();
    server.texts.destroy();
    this.events.contexts++;
  }

  /** Some are ended before they have begun, the others with clients that wait. */
  async #worker() {
    const worker = new Worker(path.join(__dirname, 'server-worker.js'), { workerData: { folder: this.#folder, seed: this.#random(1 << 20) } });
    const failed = once(worker, 'error').then(([error]) => Promise.reject(error));
    const moment = this.#random(3) === 0 ? setTimeout(this.#random(30)) : once(worker, 'message').then(() => setTimeout(this.#random(300)));
    await Promise.race([moment, failed]);
    failed.catch(() => {});
    await worker.terminate();
    this.events.workers++;
  }
}

module.exports = { ServerSoak };
