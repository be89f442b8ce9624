'use strict';

// A session: what onnxruntime-common's InferenceSession calls.

const { elementCount } = require('../onnx/arrays.js');
const { released, runArrays, runTensors } = require('../onnx/model.js');
const { Kept, keptOf } = require('../onnx/kept.js');
const { watched } = require('../onnx/watch.js');
const { Tensor } = require('./common.js');
const { ELEMENTS, heldBy } = require('./elements.js');
const { plain } = require('./errors.js');
const { loadModel } = require('./load.js');
const { canBeKept, download, fits, hold, located, tensorOver } = require('./locations.js');
const { metadataOf } = require('./metadata.js');
const { Profile } = require('./profile.js');
const { canKeep, locatedTensorOfKept, refill, tensorOfKept } = require('./kept-tensor.js');
const { runOptions } = require('./run-options.js');
const { outputLocations, sessionOptions } = require('./session-options.js');
const { checkValue, readValue } = require('./values.js');

/** Has a tensor on a device that takes an output, and may be an input too, make its MLTensor, if nobody has asked for that. */
function requireMemory(tensor) {
  const member = { 'ml-tensor': 'mlTensor', 'gpu-buffer': 'gpuBuffer' }[tensor.location];
  if (member !== undefined) void tensor[member];
}

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

  /** The state of the model. */
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
    const read = (tensor) => located(readValue(tensor), this.#provider.state);
    for (const tensor of Object.values(fetches)) if (tensor !== null) requireMemory(tensor);
    const values = this.#inputs.map(({ name }) => read(feeds[name]));
    const names = this.outputNames.filter((name) => name in fetches);
    const targets = new Map();
    for (const name of names) if (fetches[name] !== null) targets.set(name, { tensor: fetches[name], value: read(fetches[name]) });
    const { watching, requireWanted } = runOptions(options);
    this.#inputs.forEach((input, i) => checkValue('input', input, values[i]));
    for (const [name, { value }] of targets) checkValue('output', this.#outputs.get(name), value);
    const profile = this.#profile;
    const began = profile?.now();
    const tell = profile && ((steps) => profile.steps(steps, began));
    const used = [...values, ...[...targets.values()].map(({ value }) => value)];
    const letGo = hold(used.flatMap(({ mlTensor }) => mlTensor ?? []));
    this.#runs++;
    let results;
    try {
      results = await watched(watching, (watch) => this.#compute(values, names, targets, watch), tell);
    } finally {
      this.#runs--;
      letGo();
    }
    profile?.session('model_run', began);
    requireWanted();
    return results;
  }

  async #compute(values, names, targets, watch) {
    const model = this.#model;
    const bound = this.#bind(values);
    // What is in memory is copied before this returns.
    const inputs = bound instanceof Promise ? await bound : bound;
    const shapes = values.map(({ dims }) => dims);
    const wanted = new Set(names);
    const onDevice = new Map([...targets].flatMap(([name, { value: { mlTensor } }]) => (mlTensor === undefined ? [] : [[name, mlTensor]])));
    const kept = new Set(names.filter((name) => this.#locations.has(name) && !targets.has(name)));
    const isInMemory = kept.size === 0 && onDevice.size === 0 && Object.values(inputs).every((value) => ArrayBuffer.isView(value) || value instanceof Kept);
    let results;
    try {
      results = isInMemory
        ? await runArrays(model, shapes, inputs, { wanted, watch })
        : await runTensors(model, shapes, inputs, { wanted, kept, targets: onDevice, watch });
    } catch (error) {
      throw plain(error);
    }
    for (const name of kept) {
      const { dataType, shape, tensor } = results[name] ?? {};
      if (tensor === undefined || canBeKept(this.#locations.get(name), dataType)) continue;
      results[name] = { dataType, shape, data: await download({ type: dataType, dims: shape, mlTensor: tensor }) };
      tensor.destroy();
    }
    // fromEntries defines, so that '__proto__' is a name like others.
    return Object.fromEntries(names.map((name) => [name, this.#output(name, results[name], targets.get(name), inputs[model.pastOf.get(name)])]));
  }

  /** The values of the inputs as the model takes them. It waits only for tensors that have to be read elsewhere. */
  #bind(values) {
    // Without a prototype, since '__proto__' is a name like others.
    const inputs = Object.create(null);
    const elsewhere = [];
    this.#inputs.forEach(({ name }, i) => {
      const { type, dims, data, kept, mlTensor } = values[i];
      const { into } = ELEMENTS[type];
      if (kept !== undefined) inputs[name] = kept;
      else if (data !== undefined) inputs[name] = into === undefined ? data : into(data, dims.reduce((product, size) => product * size, 1));
      else if (fits(values[i], this.#provider.state)) inputs[name] = mlTensor;
      else elsewhere.push(download(values[i]).then((array) => (inputs[name] = array)));
    });
    if (elsewhere.length === 0) return inputs;
    for (const name of Object.keys(inputs)) {
      if (ArrayBuffer.isView(inputs[name])) inputs[name] = inputs[name].slice();
      else if (inputs[name] instanceof Kept) inputs[name] = inputs[name].share();
    }
    return Promise.all(elsewhere).then(() => inputs);
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
    const { dataType, shape, tensor: mlTensor } = result;
    const declared = this.#outputs.get(name).type;
    const type = heldBy(declared) === dataType ? declared : dataType;
    const kept = canKeep(type) ? keptOf(result, shape) : undefined;
    if (kept !== undefined && target === undefined) {
      const location = this.#locations.get(name);
      const isLocated = location !== undefined && canBeKept(location, type);
      return isLocated ? locatedTensorOfKept(location, type, kept, this.#provider.state) : tensorOfKept(type, kept);
    }
    if (target === undefined && mlTensor !== undefined) {
      return tensorOver(this.#locations.get(name), type, shape, mlTensor, this.#provider.context);
    }
    if (mlTensor !== undefined) return target.tensor;
    const { from } = ELEMENTS[type];
    const arrayOf = ({ data }) => (from === undefined ? data : from(data));
    if (target === undefined) return new Tensor(type, arrayOf(result), shape);
    const { tensor, value } = target;
    if (`${value.dims}` !== `${shape}`) {
      throw new Error(`The output OrtValue provided for output '${name}' has shape {${value.dims}} but the computed output shape for this run is {${shape}}.`);
    }
    if (value.kept !== undefined) {
      // Nobody has looked at what the tensor had.
      if (kept !== undefined) return refill(tensor, kept);
      value.data = tensor.data;
    }
    if (value.data.length !== elementCount(shape)) throw new Error('Preallocated output tensor buffer was detached during inference.');
    if (kept === undefined) {
      value.data.set(arrayOf(result));
    } else {
      kept.writeTo(value.data, past);
      kept.drop();
    }
    return tensor instanceof Tensor ? tensor : new Tensor(type, value.data, shape);
  }

  async dispose() {
    this.#requireSession();
    if (this.#runs > 0) throw new Error('Cannot dispose session while inference is running.');
    const model = this.#model;
    this.#model = undefined;
    model.object.destroy();
    this.#profile?.end();
    await released(model);
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

module.exports = { SessionHandler };
