'use strict';

// A session: the handler that onnxruntime-common's InferenceSession calls.

const { elementCount } = require('../onnx/arrays.js');
const { Given } = require('../onnx/given.js');
const { unreadOf } = require('../onnx/unread.js');
const { Named, put } = require('../onnx/named.js');
const { DEVICE } = require('../onnx/places.js');
const { watched } = require('../onnx/watch.js');
const { isScheduled, scheduleOf } = require('../scheduling.js');
const { Tensor } = require('./common.js');
const { ELEMENTS, heldBy } = require('./elements.js');
const { plain } = require('./errors.js');
const { loadModel } = require('./load.js');
const { canBeKept, download, fits, hold, located, tensorOver } = require('./locations.js');
const { metadataOf } = require('./metadata.js');
const { Profile } = require('./profile.js');
const { canKeep, locatedTensorOfUnread, refill, tensorOfUnread } = require('./unread-tensor.js');
const { runOptions } = require('./run-options.js');
const { outputLocations, sessionOptions } = require('./session-options.js');
const { checkValue, readValue } = require('./values.js');

/** Makes the MLTensor of a tensor on a device that takes an output, unless it exists. The tensor may be an input, too. */
function requireMemory(tensor) {
  const member = { 'ml-tensor': 'mlTensor', 'gpu-buffer': 'gpuBuffer' }[tensor.location];
  if (member !== undefined) void tensor[member];
}

/**
 * What a run is given.
 * @typedef {object} Given
 * @property {import('./values.js').Value[]} values of the inputs, in their order
 * @property {string[]} names of the outputs that are wanted
 * @property {Map<string, {tensor: object, value: import('./values.js').Value}>} targets the caller's tensors for outputs
 */

/** Most runs have no tensors for their outputs. */
const NO_TARGETS = new Map();

const dimsOf = ({ dims }) => dims;

class SessionHandler {
  #model;
  #provider;
  #inputs;
  #outputs;
  /** For outputs that stay on the device. */
  #locations;
  #profile;
  /** Runs that are under way. */
  #runs = 0;

  constructor(model, provider, options, profile) {
    this.#model = model;
    this.#provider = provider;
    this.#profile = profile;
    const { inputs, outputs } = metadataOf(model);
    this.#inputs = inputs;
    this.#outputs = new Map(outputs.map((output) => [output.name, output]));
    this.inputNames = inputs.map(({ name }) => name);
    this.outputNames = outputs.map(({ name }) => name);
    this.inputMetadata = inputs.map(({ metadata }) => metadata);
    this.outputMetadata = outputs.map(({ metadata }) => metadata);
    this.#locations = outputLocations(options, this.outputNames);
    for (const [name, location] of this.#locations) {
      const { type } = this.#outputs.get(name);
      // The memory of the CPU is no device, as in onnxruntime. Of an output whose type the file does not say it is known when it is there.
      if (provider.name === 'cpu' || (typeof type === 'string' && !canBeKept(location, type))) this.#locations.delete(name);
    }
  }

  /**
   * @param {string | Uint8Array} source
   * @param {import('./providers.js').Provider} provider
   * @param {object} options of the session, as the program gave them
   */
  static async create(source, provider, options) {
    const checked = sessionOptions(options);
    const profile = checked.enableProfiling ? new Profile(checked.profileFilePrefix) : undefined;
    const model = await loadModel(provider.context, source, checked);
    profile?.session(typeof source === 'string' ? 'model_loading_uri' : 'model_loading_array', 0);
    const began = profile?.now();
    const session = new SessionHandler(model, provider, options, profile);
    profile?.session('session_initialization', began);
    return session;
  }

  /** The model. */
  get model() {
    this.#requireSession();
    return this.#model;
  }

  /**
   * Everything that is fed is copied before this returns.
   * @param {Record<string, any>} feeds
   * @param {Record<string, any>} fetches null for an output that is to be made
   * @param {object} options
   */
  async run(feeds, fetches, options) {
    this.#requireSession();
    const given = this.#read(feeds, fetches);
    const { watching, requireWanted, schedule } = runOptions(options);
    const { values, targets } = given;
    for (let i = 0; i < values.length; i++) checkValue('input', this.#inputs[i], values[i]);
    for (const [name, { value }] of targets) checkValue('output', this.#outputs.get(name), value);
    const began = this.#profile?.now();
    const letGo = hold(onDevices(given));
    this.#runs++;
    let results;
    try {
      results = await this.#watched(watching, scheduleOf(this.#model.contextState, schedule), given, began);
    } finally {
      this.#runs--;
      letGo();
    }
    this.#profile?.session('model_run', began);
    requireWanted();
    return results;
  }

  /** @returns {Given} */
  #read(feeds, fetches) {
    for (const tensor of Object.values(fetches)) if (tensor !== null) requireMemory(tensor);
    const { state } = this.#provider;
    const values = new Array(this.#inputs.length);
    for (let i = 0; i < values.length; i++) values[i] = located(readValue(feeds[this.#inputs[i].name]), state);
    const names = [];
    let targets = NO_TARGETS;
    for (const name of this.outputNames) {
      if (!(name in fetches)) continue;
      names.push(name);
      const tensor = fetches[name];
      if (tensor === null) continue;
      if (targets === NO_TARGETS) targets = new Map();
      targets.set(name, { tensor, value: located(readValue(tensor), state) });
    }
    return { values, names, targets };
  }

  #watched(watching, schedule, given, began) {
    const profile = this.#profile;
    if (profile === undefined && watching === undefined && !isScheduled(schedule)) return this.#compute(given, 0);
    const work = (watch, life) => this.#compute(given, watch, life, schedule.priority);
    return watched(watching, work, profile && ((steps) => profile.steps(steps, began)), schedule);
  }

  /**
   * @param {Given} given
   * @param {number} watch
   * @param {import('../onnx/watch.js').Life} [life]
   * @param {number} [priority]
   */
  async #compute({ values, names, targets }, watch, life = undefined, priority = undefined) {
    const model = this.#model;
    const bound = this.#bind(values);
    // What is in memory is copied before this returns.
    const given = bound instanceof Promise ? await bound : bound;
    const wanted = names.length === this.outputNames.length ? undefined : new Set(names);
    let results;
    try {
      results = await model.run(given, { wanted, places: this.#placesOf(names, targets), watch, life, priority, isAlone: this.#profile !== undefined });
    } catch (error) {
      throw plain(error);
    }
    if (this.#locations.size > 0) await this.#download(names, targets, results);
    const found = {};
    for (const name of names) put(found, name, this.#output(name, results[name], targets.get(name), given.passed[model.pastOf.get(name)]));
    return found;
  }

  /** Where results go that are not in memory. Tensors in memory are filled when their elements are known. */
  #placesOf(names, targets) {
    if (this.#locations.size === 0 && targets === NO_TARGETS) return undefined;
    const places = new Map();
    for (const name of names) {
      const target = targets.get(name);
      const place = target === undefined ? this.#locations.has(name) && DEVICE : target.value.mlTensor;
      if (place) places.set(name, place);
    }
    return places.size > 0 ? places : undefined;
  }

  /** Takes into memory what cannot stay on the device as it is. */
  async #download(names, targets, results) {
    for (const name of names) {
      if (!this.#locations.has(name) || targets.has(name)) continue;
      const { dataType, shape, tensor } = results[name] ?? {};
      if (tensor === undefined || canBeKept(this.#locations.get(name), dataType)) continue;
      results[name] = { dataType, shape, data: await download({ type: dataType, dims: shape, mlTensor: tensor }) };
      tensor.destroy();
    }
  }

  /** The values of the inputs as the model takes them. It waits only for tensors that have to be read elsewhere. */
  #bind(values) {
    const inputs = new Named();
    const elsewhere = [];
    let hasUnread = false;
    let hasTensors = false;
    for (let i = 0; i < values.length; i++) {
      const { name } = this.#inputs[i];
      const { type, dims, data, unread, mlTensor } = values[i];
      const { into } = ELEMENTS[type];
      if (unread !== undefined) {
        inputs[name] = unread;
        hasUnread = true;
      } else if (data !== undefined) {
        inputs[name] = into === undefined ? data : into(data, elementCount(dims));
      } else if (fits(values[i], this.#provider.state)) {
        inputs[name] = mlTensor;
        hasTensors = true;
      } else elsewhere.push(i);
    }
    const given = new Given(values.map(dimsOf), inputs, hasUnread, hasTensors);
    return elsewhere.length === 0 ? given : this.#fetch(given, values, elsewhere);
  }

  /** Fills in what has to be read elsewhere, of the inputs at these positions. */
  async #fetch(given, values, positions) {
    const { values: inputs } = given.own();
    await Promise.all(positions.map(async (i) => (inputs[this.#inputs[i].name] = await download(values[i]))));
    return given;
  }

  /**
   * The tensor for a result: the caller's own, where there is one.
   * @param {string} name
   * @param {any} result
   * @param {{tensor: object, value: any} | undefined} target
   * @param {any} past what was given for the cache that it is
   */
  #output(name, result, target, past) {
    if (result === null || Array.isArray(result)) throw new Error('Non tensor type is temporarily not supported.');
    const { dataType, shape } = result;
    const declared = this.#outputs.get(name).type;
    const type = heldBy(declared) === dataType ? declared : dataType;
    const unread = canKeep(type) ? unreadOf(result, shape) : undefined;
    return target === undefined ? this.#newTensor(type, result, unread, this.#locations.get(name)) : filled(name, type, result, unread, target, past);
  }

  /** A new tensor for a result. */
  #newTensor(type, result, unread, location) {
    const { shape, tensor: mlTensor } = result;
    if (unread !== undefined) {
      const isLocated = location !== undefined && canBeKept(location, type);
      return isLocated ? locatedTensorOfUnread(location, type, unread, this.#provider.state) : tensorOfUnread(type, unread);
    }
    if (mlTensor !== undefined) return tensorOver(location, type, shape, mlTensor, this.#provider.context);
    return new Tensor(type, arrayOf(type, result), shape);
  }

  async dispose() {
    this.#requireSession();
    if (this.#runs > 0) throw new Error('Cannot dispose session while inference is running.');
    const model = this.#model;
    this.#model = undefined;
    model.destroy();
    this.#profile?.end();
    await model.released();
  }

  startProfiling() {
    // As in onnxruntime: it began with the session, if the options say so.
  }

  endProfiling() {
    this.#requireSession();
    if (this.#runs > 0) throw new Error('Cannot end profiling while inference is running.');
    this.#profile?.end();
  }

  #requireSession() {
    if (this.#model === undefined) throw new Error('Session already disposed.');
  }
}

/** The caller's tensor, with a result in it. */
function filled(name, type, result, unread, { tensor, value }, past) {
  const { shape } = result;
  if (result.tensor !== undefined) return tensor;
  if (`${value.dims}` !== `${shape}`) {
    throw new Error(`The output OrtValue provided for output '${name}' has shape {${value.dims}} but the computed output shape for this run is {${shape}}.`);
  }
  if (value.unread !== undefined) {
    // The tensor's elements were not read.
    if (unread !== undefined) return refill(tensor, unread);
    value.data = tensor.data;
  }
  if (value.data.length !== elementCount(shape)) throw new Error('Preallocated output tensor buffer was detached during inference.');
  if (unread === undefined) {
    value.data.set(arrayOf(type, result));
  } else {
    unread.writeTo(value.data, past);
    unread.drop();
  }
  return tensor instanceof Tensor ? tensor : new Tensor(type, value.data, shape);
}

/** The elements of a result as tensors of a type have them. */
function arrayOf(type, { data }) {
  const { from } = ELEMENTS[type];
  return from === undefined ? data : from(data);
}

/**
 * The MLTensors that a run uses.
 * @param {Given} given
 */
function onDevices({ values, targets }) {
  const found = [];
  for (const { mlTensor } of values) if (mlTensor !== undefined) found.push(mlTensor);
  for (const { value: { mlTensor } } of targets.values()) if (mlTensor !== undefined) found.push(mlTensor);
  return found;
}

module.exports = { SessionHandler };
