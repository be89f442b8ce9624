'use strict';

// A loaded model. Script has it as an OnnxModel or a session. Both use run(), the only way from values to results.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { traced } = require('../diagnostics.js');
const { CONTEXT_LOST, exception, invalidState, named } = require('../errors.js');
const { ask } = require('../settle.js');
const { trace } = require('../trace.js');
const { arrayOver } = require('./arrays.js');
const { Batching } = require('./batching/index.js');
const { Given } = require('./given.js');
const { isKnown } = require('./dimensions.js');
const { readInputs } = require('./inputs.js');
const { findAxes, madeUpShapes } = require('./joinable.js');
const { findLengths } = require('./lengths.js');
const { Named } = require('./named.js');
const { deliver, usesDevice } = require('./places.js');
const { Plans } = require('./plans.js');
const { startRun } = require('./run.js');
const { inTrace } = require('./watch.js');
const { prepareStep, runStep, stepFits } = require('./steps.js');

/** @typedef {import('./plan.js').Plan} Plan */
/** @typedef {import('./inputs.js').Signature} Signature */

/**
 * What a caller wants of a run.
 * @typedef {object} RunOptions
 * @property {string} [operator] for messages: 'run' if absent
 * @property {Set<string>} [wanted] the names of outputs, if not all
 * @property {import('./places.js').Places} [places] of results that do not go into memory of their own
 * @property {number} [maxBytes]
 * @property {number} [seed]
 * @property {number} [watch] the handle of what watches the run
 * @property {import('./watch.js').Life} [life] tells whether the caller still waits
 * @property {number} [priority] that of the watch, if it is not the usual one
 * @property {boolean} [isAlone] whether the run must not be joined with others
 * @property {import('../queue.js').Queue} [queue] in which the run has its place already
 */

/** Closes the files of models that were collected. */
const collected = new FinalizationRegistry((handle) => native.closeOnnx(handle));

class Model {
  /** The plan of a model whose shapes are all known. @type {Plan | undefined} */
  only;
  /** Called when the model is closed. @type {(() => void) | undefined} */
  whenClosed;
  /** Of runs that begin now. @type {import('./profile.js').OnnxProfile | undefined} */
  profile;
  /** Joins runs. @type {import('./batching/index.js').Batching | undefined} */
  batching;
  /** @type {import('./inputs.js').Reading} */
  #reading;
  #running = 0;
  #isDestroyed = false;

  /**
   * @param {any} context an MLContext
   * @param {import('../states').ContextState} contextState
   * @param {number} handle
   * @param {string} label
   * @param {any} opened what the native side says of the file
   */
  constructor(context, contextState, handle, label, opened) {
    this.context = context;
    this.contextState = contextState;
    /** Nothing once it is closed. @type {number | undefined} */
    this.handle = handle;
    /** Whether more can be made of the file. */
    this.hasFile = true;
    this.label = label;
    /** @type {Signature[]} */
    this.inputs = opened.inputs.map(signatureOf);
    /** @type {Signature[]} */
    this.outputs = opened.outputs.map(signatureOf);
    /** Whether it takes or gives sequences or optional values. */
    this.hasLists = [...opened.inputs, ...opened.outputs].some(([, , , , isSequence, isOptional]) => isSequence || isOptional);
    /** Whether its runs can be steps of a decoder, whose caches stay where they are. */
    this.hasSteps = opened.hasSteps;
    /** By the outputs that are written into caches of a fixed size: the inputs that these are. @type {Map<string, string>} */
    this.pastOf = new Map(opened.fixedCaches);
    const { producer, producerVersion, version, domain, description, graphName, metadata } = opened;
    this.metadata = { producer, producerVersion, version, domain, description, graphName, properties: Object.fromEntries(metadata) };
    this.defaults = defaultArrays(this.inputs);
    this.#reading = { defaults: this.defaults, keeps: true };
    this.plans = new Plans(this);
    collected.register(this, handle, this);
  }

  /** The plan of a model that is one graph of known shapes. */
  get oneGraph() {
    return this.only?.isProgram === false ? this.only : undefined;
  }

  get isRunning() {
    return this.#running > 0;
  }

  /** @param {string} operator */
  requireUsable(operator) {
    if (this.#isDestroyed) throw invalidState(operator, this.label, 'the OnnxModel was destroyed');
  }

  /** @param {string} operator */
  requireContext(operator) {
    if (this.contextState.lost) throw invalidState(operator, this.label, CONTEXT_LOST);
  }

  /** Something begins that needs the model, and ends with {@link leave}. */
  enter() {
    this.#running++;
  }

  leave() {
    this.#running--;
    if (this.#running > 0) return;
    if (this.#isDestroyed) this.#close();
    else this.plans.makeAhead();
  }

  /**
   * Makes the plan, if all shapes are known.
   * @param {string} operator
   * @param {boolean} anyScalars whether what is declared as a scalar may be given any shape
   * @param {import('./watch.js').Life} [life]
   */
  async planKnownShapes(operator, anyScalars, life = undefined) {
    const isFixed = ({ shape, sequence, optional, buffer }) => isKnown(shape) && !sequence && (!optional || buffer !== undefined);
    if (!this.inputs.every(isFixed)) return;
    const shapes = this.inputs.map(({ shape }) => shape);
    const plan = await this.plans.make(operator, new Given(shapes, {}, false, false), life);
    if (anyScalars && shapes.some(({ length }) => length === 0)) {
      // One of several, which nothing keeps but the plans.
      if (!plan.isProgram) this.outputs = plan.outputs.map(({ name, type, dataType, shape }) => ({ name, type, dataType, shape }));
      return;
    }
    this.only = plan;
    // One plan is all, which has what it needs of the file.
    if (plan.isProgram || this.hasSteps) return;
    native.releaseOnnxFile(this.handle);
    this.hasFile = false;
  }

  /**
   * Joins runs that wait, if the model computes rows apart.
   * @param {import('./options.js').BatchingOptions} options
   */
  async joinRuns(options) {
    const axes = await findAxes(this);
    const lengths = await findLengths(this, axes, madeUpShapes(this.inputs, axes));
    this.batching = new Batching(this, axes, lengths, options);
    // Of each length several numbers of rows are met, which says nothing about those between.
    this.plans.expectRows(this.inputs.flatMap(({ shape }, i) => (axes[i] === -1 ? [] : [shape[axes[i]]])));
  }

  /**
   * Checks the values for the inputs.
   * @param {string} operator
   * @param {Record<string, unknown>} values
   * @param {(value: unknown) => boolean} [isTensor] recognizes MLTensors, if these are accepted
   * @returns {Given}
   */
  read(operator, values, isTensor = undefined) {
    const reading = isTensor === undefined ? this.#reading : { ...this.#reading, isTensor };
    return readInputs(operator, this.label, this.inputs, values, reading);
  }

  /**
   * Runs the model on checked values. Arrays are copied before this returns.
   * @param {Given} given
   * @param {RunOptions} options
   * @returns {Promise<Record<string, any>>} results by the names of the outputs, each in its place
   */
  run(given, options) {
    const describe = () => ({ operator: options.operator ?? 'run', label: this.label, device: this.contextState.device, shapes: given.shapes });
    return traced('run', describe, () => this.#counted(given, options));
  }

  #counted(given, options) {
    const { queue } = this.contextState;
    return queue === undefined || queue === options.queue ? this.#run(given, options) : this.#runCounted(queue, given, options);
  }

  async #runCounted(queue, given, options) {
    const leave = queue.enter(options.operator ?? 'run', this.label);
    try {
      return await this.#run(given, options);
    } finally {
      leave?.();
    }
  }

  async #run(given, options) {
    this.requireUsable('run');
    const turn = this.batching?.begin(given, options);
    if (turn === undefined) return await this.runAlone(given, options);
    this.enter();
    try {
      return await (turn.results ?? this.runAlone(given, options));
    } finally {
      this.batching?.end(turn);
      this.leave();
    }
  }

  /**
   * The same without others. The model may have been destroyed since the caller has asked.
   * @param {Given} given
   * @param {RunOptions} options
   */
  runAlone(given, options) {
    return trace === undefined ? this.#runNow(given, options) : inTrace(this, options, (watched) => this.#runNow(given, watched));
  }

  async #runNow(given, options) {
    const mayBeStep = this.hasSteps && options.seed === undefined && options.maxBytes === undefined && this.#canStep(given, options);
    const plan = mayBeStep ? undefined : this.#find(given);
    this.enter();
    plan?.enter();
    try {
      return await (plan === undefined ? this.#prepareAndRun(given, options, mayBeStep) : this.#runPlan(plan, given, options));
    } finally {
      plan?.leave();
      this.leave();
    }
  }

  /** A step works on memory, and on a CPU that is what tensors have. Those of a GPU are computed with where they are. */
  #canStep({ hasTensors }, { places }) {
    return this.contextState.device === 'cpu' || !(hasTensors || usesDevice(places));
  }

  /** The plan for these shapes, if there is one. */
  #find(given) {
    return this.only ?? this.plans.find(given);
  }

  /** A run for which something may have to be found out or made first. */
  async #prepareAndRun(given, options, mayBeStep) {
    if (mayBeStep) {
      const readable = given.hasTensors ? await given.readTensors(this.context) : given;
      if (readable !== undefined && (stepFits(this, readable) ?? (await prepareStep(this, readable.own())))) return await this.#runStep(readable, options);
    }
    return await this.runByPlan(given, options);
  }

  async #runStep(given, options) {
    const results = await runStep(this, given, options);
    return options.places === undefined ? results : deliver(this, results, options.places, given);
  }

  /**
   * Runs the model as a step of a decoder, if the values allow that. They must not change meanwhile.
   * @param {Given} given without tensors
   * @param {RunOptions} options
   */
  async runAsStep(given, options) {
    const fits = this.hasSteps && (stepFits(this, given) ?? (await prepareStep(this, given, options.operator)));
    return fits ? this.#runStep(given, options) : undefined;
  }

  /**
   * Runs the model by a plan, which may have to be made. Arrays are copied before this returns.
   * @param {Given} given
   * @param {RunOptions} options
   */
  async runByPlan(given, options) {
    const plan = this.#find(given) ?? (await this.plans.make(options.operator ?? 'run', given.own(), options.life));
    return await plan.using(this.#runPlan(plan, given, options));
  }

  #runPlan(plan, given, options) {
    this.#checkBytes(plan, options.maxBytes);
    const results = startRun(this, plan, given.readUnread(), options);
    return options.places === undefined ? results : results.then((found) => deliver(this, found, options.places, given));
  }

  /** Holds what a run takes against the caller's limit, before there is memory for it. */
  #checkBytes({ bytes, runBytes }, maxBytes) {
    if (maxBytes === undefined || runBytes <= maxBytes) return;
    const parts = `${bytes} of inputs and outputs, ${runBytes - bytes} of values in between`;
    throw exception('OperationError', `${named('run', this.label)}: a run takes ${runBytes} bytes (${parts}), allowed at most ${maxBytes} (maxBytes)`);
  }

  /**
   * Makes plans, or whatever runs with inputs of these shapes will ask for.
   * @param {any[][]} list
   * @param {import('./watch.js').Life} [life]
   */
  async prepare(list, life = undefined) {
    this.enter();
    try {
      if (this.only === undefined) await Promise.all(list.map((shapes) => this.#prepare(new Given(shapes, {}, false, false), life)));
    } finally {
      this.leave();
    }
  }

  async #prepare(given, life) {
    const isStep = this.hasSteps && (await prepareStep(this, given, 'prepare'));
    if (!isStep) await this.plans.make('prepare', given, life);
  }

  /** Releases the weights and all plans. Runs in flight are completed. */
  destroy() {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    this.batching?.hurry();
    // A run may still be waiting for its plan.
    if (!this.isRunning) this.#close();
  }

  #close() {
    this.whenClosed?.();
    this.plans.clear();
    collected.unregister(this);
    native.closeOnnx(this.handle);
    this.handle = undefined;
  }

  memoryUsage() {
    if (this.handle !== undefined) return native.onnxMemoryUsage(this.handle);
    return NOTHING();
  }

  /** Ends when the memory of a model that was destroyed has gone back. */
  async released() {
    const { handle, order } = this.contextState;
    await this.plans.ended();
    await ask((request) => order.awaitContext(request, handle));
  }
}

/** What a model holds that is closed. */
const NOTHING = () => ({ tensors: 0, graphs: 0, packed: 0, mapped: 0, constants: 0, sources: 0, plans: 0, shared: 0, scratch: 0, caches: 0, pendingWrites: 0, peak: 0 });

/** @returns {Signature} */
function signatureOf([name, dataType, shape, type, sequence, optional, buffer]) {
  return { name, type, dataType: dataType === null ? null : dataTypes[dataType], shape, sequence, optional: optional || buffer !== undefined, buffer };
}

/** The arrays of inputs that need not be passed, if there are such inputs. */
function defaultArrays(inputs) {
  const list = inputs.filter(({ buffer }) => buffer !== undefined);
  if (list.length === 0) return undefined;
  const arrays = new Named();
  for (const { name, dataType, buffer } of list) arrays[name] = arrayOver(dataType, buffer);
  return arrays;
}

module.exports = { Model };
