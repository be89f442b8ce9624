'use strict';

// One version of a model that is loaded. It counts its users; when it is retired, the last of them releases it.

const { ServeError } = require('./errors.js');
const { loadBatched } = require('./load-batched.js');
const { loadHub } = require('./openai/load.js');
const { labelOf } = require('./statistics.js');
const { warmUp } = require('./warm-up.js');

/**
 * @typedef {object} RunOptions
 * @property {string[]} [outputs] the names of the outputs that are wanted, if not all
 * @property {AbortSignal} [signal] cancels the run
 * @property {number} [priority] as Triton has it: 1 is the highest, 0 the default
 * @property {number} [timeout] milliseconds
 */

/** By Triton's numbers: 0 is the default, 1 the highest. */
const PRIORITIES = [undefined, 'high', 'normal', 'low'];
/** Of a timer. */
const LONGEST = 2 ** 31 - 1;

class LoadedModel {
  #users = 0;
  #isRetired = false;
  /** @type {[string, number][] | undefined} */
  #axes;
  #released = withResolvers();

  /**
   * @param {import('./layout.js').Found} found
   * @param {any} onnx the OnnxModel; undefined if a model of the hub is several
   * @param {any} hub what `loadHub` has made of a folder of the hub
   */
  constructor({ name, version, kind, path }, onnx, hub) {
    this.name = name;
    this.version = version;
    this.kind = kind;
    this.path = path;
    this.onnx = onnx;
    this.hub = hub;
  }

  /**
   * Loads a model and runs it once.
   * @param {import('./layout.js').Found} found
   * @param {import('./models.js').RegistryOptions} options
   */
  static async load(found, options) {
    const { context, log } = options;
    if (found.problem !== undefined) throw new ServeError('invalid', found.problem);
    if (found.kind === 'hub') {
      const hub = await loadHub({ ...found, context, onnx: options.onnx, generation: options.generation, log });
      return new LoadedModel(found, hub.onnx, hub);
    }
    const onnx = await load(found, options);
    const model = new LoadedModel(found, onnx, undefined);
    try {
      await warmUp(onnx, log);
    } catch (error) {
      onnx.destroy();
      throw error;
    }
    return model;
  }

  enter() {
    this.#users++;
  }

  leave() {
    this.#users--;
    this.#releaseIfUnused();
  }

  /** Releases it when its last user has left. @returns {Promise<void>} */
  retire() {
    this.#isRetired = true;
    this.#releaseIfUnused();
    return this.#released.promise;
  }

  /**
   * @param {Record<string, any>} feeds
   * @param {RunOptions} [options]
   * @returns {Promise<Record<string, any>>}
   */
  async run(feeds, { outputs, signal, priority = 0, timeout } = {}) {
    const options = { outputs, signal, priority: PRIORITIES[Math.min(priority, PRIORITIES.length - 1)] };
    if (this.onnx === undefined) throw new ServeError('invalid', `model ${JSON.stringify(this.name)}: it takes no tensors`);
    if (timeout === undefined || timeout === Infinity) return this.onnx.run(feeds, options);
    const clock = new AbortController();
    const cancel = () => clock.abort(signal.reason);
    const timer = setTimeout(() => clock.abort(new ServeError('late', `the run did not end within ${timeout} ms`)), Math.min(timeout, LONGEST));
    try {
      if (signal?.aborted) cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      return await this.onnx.run(feeds, { ...options, signal: clock.signal });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** The rows of a request, if its runs can be joined with others. @param {Record<string, any>} feeds */
  rowsOf(feeds) {
    this.#axes ??= Object.entries(this.onnx?.batching?.axes ?? {});
    const [first] = this.#axes;
    return first === undefined ? 1 : (feeds[first[0]]?.shape[first[1]] ?? 1);
  }

  #releaseIfUnused() {
    if (!this.#isRetired || this.#users > 0) return;
    if (this.hub === undefined) this.onnx.destroy();
    else this.hub.destroy();
    this.#released.resolve();
  }
}

function withResolvers() {
  const all = {};
  all.promise = new Promise((resolve) => {
    all.resolve = resolve;
  });
  return all;
}

/** With dynamic batching where the model computes rows apart. */
function load({ name, version, path, config }, { context, onnx = {}, log }) {
  if (config !== undefined && config.ignored.length > 0) log?.info({ model: name, fields: config.ignored }, 'fields of config.pbtxt have no meaning here');
  return loadBatched(context, path, { label: labelOf(name, version), batching: config?.batching ?? true, ...onnx }, log);
}

module.exports = { LoadedModel };
