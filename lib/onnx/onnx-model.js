'use strict';

// OnnxModel: the interface of a model for script. run() takes arrays, bindings keep tensors.

const { named, typeError } = require('../errors.js');
const { construct, expose, illegalUnless, receiverOf } = require('../interface.js');
const { USUAL, isScheduled, scheduleOf } = require('../scheduling.js');
const { show } = require('../show.js');
const { createBindings } = require('./bindings.js');
const { solveShapes } = require('./inputs.js');
const { prepareOptions, runOptions } = require('./options.js');
const { peakOf } = require('../peak.js');
const { OnnxProfile, profileRun } = require('./profile.js');
const { onAbort, watched } = require('./watch.js');

/** @typedef {import('./model.js').Model} Model */

/** The Model of an OnnxModel. @type {(value: unknown) => Model | undefined} */
let modelIn;

class OnnxModel {
  /** @type {Model} */
  #model;

  constructor(key = undefined, model = undefined) {
    illegalUnless(key);
    this.#model = model;
  }

  /** What run() takes, in the order of the file. Dimensions that the model leaves open are names. */
  get inputs() {
    return describe(self(this, 'inputs').inputs);
  }

  /** What it gives. Sizes that only a run can tell are null. */
  get outputs() {
    const { oneGraph, outputs } = self(this, 'outputs');
    return describe(oneGraph?.outputs ?? outputs);
  }

  /** Of a model that is one graph of known shapes. */
  get graph() {
    return self(this, 'graph').oneGraph?.graph;
  }

  get label() {
    return self(this, 'label').label;
  }

  /** What the file says of itself. */
  get metadata() {
    const { metadata } = self(this, 'metadata');
    return { ...metadata, properties: { ...metadata.properties } };
  }

  /** The nodes at which the model is cut, as far as plans have been made. */
  get cuts() {
    const { only } = self(this, 'cuts');
    return (only?.cuts ?? []).map(([node, operator, reason]) => ({ node, operator, reason }));
  }

  /** How runs are joined, and how many have been; undefined without the option. */
  get batching() {
    return self(this, 'batching').batching?.describe();
  }

  /**
   * Runs the model. The arrays are copied before this returns.
   * @param {Record<string, unknown>} inputs
   * @param {import('../onnx.d.ts').OnnxRunOptions} [options]
   * @returns {Promise<Record<string, import('./tensor.js').OnnxTensor | import('./tensor.js').OnnxTensor[] | null>>}
   */
  async run(inputs, options = undefined) {
    return runModel(usable(this, 'run'), inputs, options);
  }

  /** Profiles the runs that begin from now on, until it is stopped or another one is made. */
  profile() {
    const model = usable(this, 'profile');
    const end = (profile) => {
      if (model.profile === profile) model.profile = undefined;
    };
    model.profile = new OnnxProfile(end, () => peakOf(model.context, model.contextState.device));
    return model.profile;
  }

  /**
   * Makes plans for inputs of these shapes, so that no run has to wait for one.
   * @param {Record<string, number[]>[]} list
   * @param {{signal?: AbortSignal}} [options]
   */
  async prepare(list, options = undefined) {
    const model = usable(this, 'prepare');
    if (!Array.isArray(list)) throw typeError('prepare', model.label, `found ${show(list)}, allowed an array of shapes by the names of the inputs`);
    const { signal } = prepareOptions('prepare', model, options);
    const shapes = list.map((given) => solveShapes('prepare', model.label, model.inputs, given));
    signal?.throwIfAborted();
    await watched(onAbort(signal), (_watch, life) => model.prepare(shapes, life));
  }

  /**
   * Tensors for all inputs and outputs; those that are given are used, the others made.
   * @param {{inputs?: object, outputs?: object}} [given]
   */
  async createBindings(given = {}) {
    return createBindings(usable(this, 'createBindings'), given);
  }

  /** The bytes that it holds, by use (docs/extensions.md C11). */
  memoryUsage() {
    return self(this, 'memoryUsage').memoryUsage();
  }

  /** Releases the weights and all plans. Runs in flight are completed. */
  destroy() {
    self(this, 'destroy').destroy();
  }

  static {
    modelIn = (value) => (typeof value === 'object' && value !== null && #model in value ? value.#model : undefined);
  }
}

expose(OnnxModel, modelIn);
const self = receiverOf('OnnxModel', modelIn);

/**
 * See {@link OnnxModel#run}.
 * @param {Model} model
 * @param {unknown} inputs
 * @param {import('../onnx.d.ts').OnnxRunOptions} [options]
 * @param {import('../queue.js').Queue} [queue] in which the run has its place already
 * @returns {Promise<Record<string, any>>}
 */
function runModel(model, inputs, options, queue = undefined) {
  const given = model.read('run', inputs);
  const checked = runOptions('run', model, options);
  const schedule = scheduleOf(model.contextState, checked.schedule ?? USUAL);
  schedule.signal?.throwIfAborted();
  const { profile } = model;
  checked.isAlone = profile !== undefined;
  checked.queue = queue;
  const work = (watch, life = undefined) => {
    checked.watch = watch;
    checked.life = life;
    return model.run(given, checked);
  };
  if (!isScheduled(schedule) && profile === undefined) return work(0);
  checked.priority = schedule.priority;
  return watched(onAbort(schedule.signal), work, profile && profileRun(profile), { ...schedule, name: named('run', model.label) });
}

function usable(value, member) {
  const model = self(value, member);
  model.requireUsable(member);
  return model;
}

/** Copies for the caller. */
function describe(list) {
  return list.map(({ name, type, dataType, shape, optional, sequence }) => ({
    name,
    type,
    dataType,
    shape: shape && [...shape],
    ...(optional && { optional }),
    ...(sequence && { sequence }),
  }));
}

/** @param {Model} model */
const createOnnxModel = (model) => new OnnxModel(construct, model);

/**
 * What stands for a model elsewhere, as sessions of onnxruntime's interface do.
 * @type {WeakMap<object, () => Model>}
 */
const standing = new WeakMap();

/**
 * Lets an object stand for a model.
 * @param {object} object
 * @param {() => Model} model
 */
function standFor(object, model) {
  standing.set(object, model);
}

/** The Model of an OnnxModel, or of what stands for one; nothing for anything else. */
function modelOf(value) {
  return modelIn(value) ?? (typeof value === 'object' && value !== null ? standing.get(value)?.() : undefined);
}

module.exports = { OnnxModel, createOnnxModel, modelOf, runModel, standFor };
