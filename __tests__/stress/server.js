'use strict';

// Clients of one model with batching: they come and go, cancel, set deadlines and priorities, and contexts are lost under them. Every call
// is settled once, with what it would have got alone or with an error that it asked for.

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

const MOST_CLIENTS = 24;
const MODEL = 2;

class ServerSoak {
  #random;
  #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-stress-'));
  #file = writeModels(this.#folder)[MODEL];
  #context;
  #model;
  /** How calls ended, by kind. */
  counts = { called: 0, answered: 0, cancelled: 0, late: 0, refused: 0, lost: 0 };

  constructor(seed) {
    this.#random = generator(seed);
  }

  async start() {
    this.#context = await ml.createContext({ accelerated: false });
    this.#model = await loadOnnx(this.#context, this.#file, { batching: { maxSize: 16 } });
  }

  async end() {
    this.#model.destroy();
    this.#context.destroy();
    fs.rmSync(this.#folder, { recursive: true });
  }

  /** A round: some clients with some calls each, and now and then a context that is lost, or a worker that ends. */
  async step() {
    const clients = Array.from({ length: 1 + this.#random(MOST_CLIENTS) }, () => this.#client(1 + this.#random(8)));
    if (this.#random(8) === 0) clients.push(this.#lose());
    if (this.#random(8) === 0) clients.push(this.#worker());
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
    const [seed, rows] = [this.#random(1 << 20), 1 + this.#random(6)];
    const reason = new Error('nobody waits for it any more');
    const [controller, hasSignal, isLate] = [new AbortController(), this.#random(4) === 0, this.#random(6) === 0];
    const options = { priority: ['high', 'normal', 'low'][this.#random(3)] };
    if (hasSignal) options.signal = controller.signal;
    if (isLate) options.timeout = this.#random(3);
    this.counts.called++;
    const result = this.#model.run(feeds(seed, rows), options).then(
      (outputs) => {
        check(MODEL, seed, rows, outputs);
        return 'answered';
      },
      (error) => {
        if (hasSignal && error === reason) return 'cancelled';
        if (isLate && error.name === 'TimeoutError') return 'late';
        if (error.name === 'QuotaExceededError') return 'refused';
        if (error.name === 'InvalidStateError') return 'lost';
        throw error;
      },
    );
    if (hasSignal) {
      await (this.#random(2) === 0 ? setImmediate() : setTimeout(this.#random(4)));
      controller.abort(reason);
    }
    this.counts[await result]++;
  }

  /** The next context and its model are there before the last one is destroyed, so that later calls find one. */
  async #lose() {
    const [context, model] = [this.#context, this.#model];
    await this.start();
    context.destroy();
    model.destroy();
  }

  async #worker() {
    const worker = new Worker(path.join(__dirname, 'user.js'), { workerData: { file: this.#file, model: MODEL, seed: this.#random(1 << 20) } });
    const failed = once(worker, 'error').then(([error]) => Promise.reject(error));
    await Promise.race([setTimeout(this.#random(300)), failed]);
    failed.catch(() => {});
    await worker.terminate();
  }
}

module.exports = { ServerSoak };
