'use strict';

// onnxruntime-node beside this package: in a process of its own, since both have threads, and memory is counted by process.

const { fork } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

/** Arrays of types that a model has here as another one. */
const WIDER = { float64: Float64Array, int16: Int16Array, uint16: Uint16Array };

/** Where it is installed: beside the program that is here, or beside this package. */
function find() {
  for (const from of [path.join(process.cwd(), 'package.json'), __filename]) {
    try {
      const file = createRequire(from).resolve('onnxruntime-node');
      // Another package may stand in its place, such as the one of this package.
      if (nameOf(file) === 'onnxruntime-node') return file;
    } catch {
      // Not there.
    }
  }
  return undefined;
}

/** The name of the package that a file belongs to. */
function nameOf(file) {
  for (let folder = path.dirname(file); folder !== path.dirname(folder); folder = path.dirname(folder)) {
    try {
      const { name } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
      if (name !== undefined) return name;
    } catch {
      // The package is further up.
    }
  }
  return undefined;
}

class OtherProcess {
  #child;
  #answers = [];

  constructor() {
    this.#child = fork(__filename, [], { serialization: 'advanced', stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#child.on('message', (message) => this.#answers.shift()?.(message));
    this.#child.on('exit', (code, signal) => {
      for (const answer of this.#answers.splice(0)) answer({ error: `its process ended (${signal ?? code})` });
    });
  }

  /** Loads the model there, and runs it once. */
  load(message) {
    return this.#ask({ load: { ...message, package: find() } });
  }

  round(inFlight, ms) {
    return this.#ask({ round: [inFlight, ms] });
  }

  end() {
    if (this.#child.connected) this.#child.disconnect();
  }

  async #ask(message) {
    const answer = await new Promise((resolve) => {
      this.#answers.push(resolve);
      this.#child.send(message, (error) => error && resolve({ error: error.message }));
    });
    if (answer.error !== undefined) throw new Error(`onnxruntime-node: ${answer.error}`);
    return answer;
  }
}

/** The other process. */
function serve() {
  const { measureRound } = require('./measure.js');
  let run;
  const load = async ({ package: file, model, inputs, threads }) => {
    const { InferenceSession, Tensor } = require(file);
    const start = performance.now();
    const session = await InferenceSession.create(model, threads === undefined ? {} : { intraOpNumThreads: threads });
    const loadMs = performance.now() - start;
    const feeds = Object.fromEntries(
      inputs.map(({ name, type, data, shape }) => [name, new Tensor(type, type in WIDER ? WIDER[type].from(data) : data, shape)]),
    );
    run = () => session.run(feeds);
    const began = performance.now();
    await run();
    return { loadMs, firstMs: performance.now() - began, memoryBytes: process.memoryUsage.rss() };
  };
  process.on('message', async (/** @type {any} */ message) => {
    try {
      const answer = message.load ? await load(message.load) : await measureRound(run, message.round[0], message.round[1]);
      process.send({ ...answer, memoryBytes: process.memoryUsage.rss(), peakMemoryBytes: process.resourceUsage().maxRSS * 1024 });
    } catch (error) {
      process.send({ error: error.message });
    }
  });
}

if (require.main === module) serve();

module.exports = { OtherProcess, find };
