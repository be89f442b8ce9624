'use strict';

// The models of a server, by name and version. What is unloaded or replaced stays until its last user has left.

const path = require('node:path');
const { ServeError } = require('./errors.js');
const { findModels, findVersions } = require('./layout.js');
const { LoadedModel } = require('./loaded-model.js');

/** @typedef {import('./layout.js').Found} Found */

/**
 * @typedef {object} RegistryOptions
 * @property {string} [folder] with models
 * @property {Record<string, string>} [models] files or folders by the names of models
 * @property {any} context the MLContext that all models use
 * @property {object} [onnx] options of `loadOnnx`
 * @property {import('./openai/language-model.js').Generation} [generation]
 * @property {number} [versions] so many of the latest versions of a model are loaded; all if absent
 * @property {any} [log] a logger of pino
 * @property {(model: LoadedModel) => void} [whenLoaded]
 * @property {import('../index.js').ServeOptions['onProgress']} [onProgress]
 */

class Registry {
  /** The versions of a model that are served, the latest last. @type {Map<string, LoadedModel[]>} */
  #served = new Map();
  /** Why a model is not served. @type {Map<string, { version: string, state: string, reason: string }[]>} */
  #others = new Map();
  /** Loads and unloads of a model come one after the other. @type {Map<string, Promise<unknown>>} */
  #changes = new Map();
  #options;
  #isClosed = false;
  /** Until all that there is at the start is loaded, or cannot be. */
  #isStarting = true;
  #isReady = false;
  /** Of the model that is being loaded at the start, and of how many. */
  #position = { number: 0, count: 0 };
  /** @type {(() => Promise<void>)[]} */
  #whenClosing = [];

  /** @param {RegistryOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /** Whether everything that was found at the start is loaded and has run once. */
  get isReady() {
    return this.#isReady;
  }

  /** Loads everything that there is. A model that cannot be loaded is an error. */
  async loadAll() {
    try {
      const names = [...new Set((await this.#find()).map(({ name }) => name))];
      if (names.length === 0) throw new ServeError('missing', `${this.#options.folder ?? 'models'}: found no models`);
      for (const [i, name] of names.entries()) {
        this.#position = { number: i + 1, count: names.length };
        await this.load(name);
      }
      this.#isReady = true;
    } finally {
      this.#isStarting = false;
    }
  }

  /** All versions that are served or were found: `{ name, version, state, reason }`. */
  async list() {
    const states = new Map();
    const put = (name, version, state, reason) => states.set(JSON.stringify([name, version]), { name, version, state, reason });
    for (const { name, version } of await this.#find()) put(name, version, 'UNAVAILABLE', 'unloaded');
    for (const [name, others] of this.#others) for (const { version, state, reason } of others) put(name, version, state, reason);
    for (const [name, versions] of this.#served) for (const { version } of versions) put(name, version, 'READY', '');
    return [...states.values()];
  }

  /** The models that are served, the latest version of each. */
  latest() {
    return [...this.#served.values()].map((versions) => versions.at(-1));
  }

  /** All versions that are served. */
  all() {
    return [...this.#served.values()].flat();
  }

  /** The versions of a model that are served. @param {string} name */
  versions(name) {
    return (this.#served.get(name) ?? []).map(({ version }) => version);
  }

  /**
   * A model that is served: its latest version if none is asked for. Use {@link use} to run it.
   * @param {string} name
   * @param {string} [version]
   * @returns {LoadedModel}
   */
  get(name, version = '') {
    const versions = this.#served.get(name);
    const found = version === '' ? versions?.at(-1) : versions?.find((one) => one.version === version);
    if (found !== undefined) return found;
    // A balancer may send what comes now to another replica.
    if (this.#isClosed) throw new ServeError('unavailable', 'the server is shutting down', { retryAfter: 1 });
    if (this.#isStarting) throw new ServeError('unavailable', 'the server is starting', { retryAfter: 1 });
    const what = `model ${JSON.stringify(name)}${version === '' ? '' : `, version ${JSON.stringify(version)}`}`;
    const other = this.#others.get(name)?.find((one) => version === '' || one.version === version);
    if (other?.state === 'LOADING') throw new ServeError('unavailable', `${what}: it is being loaded`, { retryAfter: 1 });
    throw new ServeError('missing', `${what}: there is no such model`);
  }

  /**
   * Keeps a model loaded while `work` uses it.
   * @template T
   * @param {string} name
   * @param {string | undefined} version
   * @param {(model: LoadedModel) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async use(name, version, work) {
    const model = this.get(name, version);
    model.enter();
    try {
      return await work(model);
    } finally {
      model.leave();
    }
  }

  /**
   * Runs a model.
   * @param {string} name
   * @param {Record<string, any>} feeds what `OnnxModel.run` takes
   * @param {import('./loaded-model.js').RunOptions & { version?: string }} [options]
   * @returns {Promise<Record<string, any>>}
   */
  run(name, feeds, { version, ...options } = {}) {
    return this.use(name, version, (model) => model.run(feeds, options));
  }

  /**
   * Loads a model, or loads it again. The versions that are served until then are served until the new ones have run once.
   * @param {string} name
   */
  load(name) {
    return this.#change(name, async () => {
      const found = this.#wanted((await this.#find()).filter((one) => one.name === name));
      if (found.length === 0) throw new ServeError('missing', `model ${JSON.stringify(name)}: there is no such model`);
      this.#others.set(name, found.map(({ version }) => ({ version, state: 'LOADING', reason: '' })));
      const loaded = [];
      try {
        for (const one of found) loaded.push(await LoadedModel.load(one, this.#optionsOf(name)));
      } catch (error) {
        for (const one of loaded) one.retire();
        this.#others.set(name, found.map(({ version }) => ({ version, state: 'UNAVAILABLE', reason: error.message })));
        throw new ServeError('invalid', `model ${JSON.stringify(name)}: ${error.message}`, { cause: error });
      }
      this.#others.delete(name);
      const before = this.#served.get(name) ?? [];
      this.#served.set(name, loaded);
      for (const one of before) one.retire();
      for (const one of loaded) this.#options.whenLoaded?.(one);
    });
  }

  /**
   * Unloads a model. Its memory is released when the last run has ended.
   * @param {string} name
   */
  unload(name) {
    return this.#change(name, async () => {
      const before = this.#served.get(name);
      if (before === undefined) throw new ServeError('missing', `model ${JSON.stringify(name)}: it is not loaded`);
      this.#served.delete(name);
      this.#others.delete(name);
      for (const one of before) one.retire();
    });
  }

  /** Does this before models are released. @param {() => Promise<void>} work */
  whenClosing(work) {
    this.#whenClosing.push(work);
  }

  /** Releases everything. Runs that are under way are waited for. */
  async close() {
    this.#isReady = false;
    this.#isClosed = true;
    await Promise.all(this.#whenClosing.splice(0).map((work) => work()));
    const all = [...this.#served.values()].flat();
    this.#served.clear();
    await Promise.all(all.map((model) => model.retire()));
  }

  /** The options of a model: at the start whoever asked for it hears how far it is. */
  #optionsOf(name) {
    const { onProgress, ...options } = this.#options;
    if (onProgress === undefined || !this.#isStarting) return options;
    return { ...options, onnx: { ...options.onnx, onProgress: (progress) => onProgress({ model: name, ...this.#position, ...progress }) } };
  }

  #change(name, work) {
    const before = this.#changes.get(name) ?? Promise.resolve();
    const change = before.catch(() => {}).then(work);
    this.#changes.set(name, change);
    const forget = () => {
      if (this.#changes.get(name) === change) this.#changes.delete(name);
    };
    change.then(forget, forget);
    return change;
  }

  /** The versions that are to be loaded, the latest last. */
  #wanted(found) {
    const { versions = Infinity } = this.#options;
    return found.slice(-versions);
  }

  /** @returns {Promise<Found[]>} */
  async #find() {
    const { folder, models = {} } = this.#options;
    const found = folder === undefined ? [] : await findModels(path.resolve(folder));
    for (const [name, file] of Object.entries(models)) {
      const own = file.endsWith('.onnx') ? [{ name, version: '1', kind: /** @type {const} */ ('onnx'), path: file }] : await findVersions(name, path.resolve(file));
      found.push(...own);
    }
    return found;
  }
}

module.exports = { Registry };
