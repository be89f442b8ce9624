'use strict';

// Loads, runs of all shapes, limits, unloads, lost contexts, workers that end at random moments, and processes that use the same cache
// and are killed at random moments.

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { Worker } = require('node:worker_threads');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { check, feeds, writeModels } = require('./models.js');
const { generator } = require('./random.js');

const CONTEXTS = 3;
const MOST_MODELS = 12;
const user = path.join(__dirname, 'user.js');

class MemorySoak {
  #random;
  #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-stress-'));
  #cache = path.join(this.#folder, 'cache');
  #files = writeModels(this.#folder);
  #contexts = [];
  /** What is loaded: `{ model, file, context }`. */
  #loaded = [];
  counts = {};

  constructor(seed) {
    this.#random = generator(seed);
  }

  async start() {
    for (let i = 0; i < CONTEXTS; i++) this.#contexts.push(await ml.createContext({ accelerated: false }));
  }

  async end() {
    for (const { model } of this.#loaded.splice(0)) model.destroy();
    for (const context of this.#contexts) context.destroy();
    fs.rmSync(this.#folder, { recursive: true });
  }

  /** One random thing. */
  async step() {
    const actions = ['load', 'load', 'load', 'refuse', 'run', 'run', 'run', 'run', 'runMany', 'unload', 'unload', 'forget', 'lose', 'worker', 'process'];
    const action = this.#pick(actions);
    this.counts[action] = (this.counts[action] ?? 0) + 1;
    await this[action]();
  }

  #pick(list) {
    return list[this.#random(list.length)];
  }

  async load() {
    if (this.#loaded.length === MOST_MODELS) return this.unload();
    const [file, context] = [this.#random(this.#files.length), this.#pick(this.#contexts)];
    const options = this.#pick([{}, { cache: this.#cache }, { cache: this.#cache, memoryLimit: 64 << 20 }, { map: true }]);
    const source = this.#random(4) === 0 ? fs.readFileSync(this.#files[file]) : this.#files[file];
    this.#loaded.push({ model: await loadOnnx(context, source, options), file, context });
  }

  /** A limit below what a run takes: the error says so, and nothing of it stays. Weights that others have count for them. */
  async refuse() {
    const load = async () => {
      const model = await loadOnnx(this.#pick(this.#contexts), this.#pick(this.#files), { memoryLimit: 100_000 });
      try {
        await model.run(feeds(1, 400));
      } finally {
        model.destroy();
      }
    };
    await assert.rejects(load, /100000 are allowed/);
  }

  async run() {
    if (this.#loaded.length === 0) return this.load();
    await this.#runOne(this.#pick(this.#loaded));
  }

  async runMany() {
    if (this.#loaded.length === 0) return this.load();
    await Promise.all(Array.from({ length: 8 }, () => this.#runOne(this.#pick(this.#loaded))));
  }

  async #runOne({ model, file }) {
    const [seed, rows] = [this.#random(1 << 20), 1 + this.#random(40)];
    check(file, seed, rows, await model.run(feeds(seed, rows)));
  }

  async unload() {
    if (this.#loaded.length === 0) return this.load();
    const [{ model }] = this.#loaded.splice(this.#random(this.#loaded.length), 1);
    model.destroy();
  }

  /** A file of the cache is deleted while models use it. */
  async forget() {
    const files = fs.existsSync(this.#cache) ? fs.readdirSync(this.#cache, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()) : [];
    if (files.length === 0) return;
    const { parentPath, name } = this.#pick(files);
    fs.rmSync(path.join(parentPath, name), { force: true });
  }

  async lose() {
    const position = this.#random(CONTEXTS);
    const context = this.#contexts[position];
    const users = this.#loaded.filter((one) => one.context === context);
    const runs = users.map((one) => one.model.run(feeds(1, 1)).then(() => undefined, (error) => error));
    context.destroy();
    for (const error of await Promise.all(runs)) assert.ok(error === undefined || error.name === 'InvalidStateError', error);
    this.#loaded = this.#loaded.filter((one) => one.context !== context);
    this.#contexts[position] = await ml.createContext({ accelerated: false });
  }

  async worker() {
    const file = this.#random(this.#files.length);
    const worker = new Worker(user, { workerData: { file: this.#files[file], model: file, cache: this.#cache, seed: this.#random(1 << 20) } });
    const failed = once(worker, 'error').then(([error]) => Promise.reject(error));
    // Some are ended before they have begun.
    const moment = this.#random(3) === 0 ? setTimeout(this.#random(30)) : once(worker, 'message').then(() => setTimeout(this.#random(30)));
    await Promise.race([moment, failed]);
    failed.catch(() => {});
    await worker.terminate();
  }

  async process() {
    const file = this.#random(this.#files.length);
    const child = spawn(process.execPath, [user, this.#files[file], String(file), this.#cache, String(this.#random(1 << 20))], { stdio: ['ignore', 'ignore', 'pipe'] });
    let text = '';
    child.stderr.setEncoding('utf8').on('data', (piece) => (text += piece));
    const ended = once(child, 'exit');
    const isKilled = this.#random(2) === 0;
    if (isKilled) {
      await Promise.race([setTimeout(this.#random(400)), ended]);
      child.kill('SIGKILL');
    }
    const [code, signal] = await ended;
    assert.ok(code === 0 || (isKilled && signal === 'SIGKILL'), `a process ended with ${code ?? signal}: ${text}`);
  }
}

module.exports = { MemorySoak };
