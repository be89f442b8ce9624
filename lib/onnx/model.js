'use strict';

// A model that was loaded: run() for arrays, bindings for tensors.

const native = require('../native.js');
const { exception, invalidState, named, typeError } = require('../errors.js');
const { ask } = require('../settle.js');
const { construct, expose, illegalUnless } = require('../interface.js');
const { quote, show } = require('../show.js');
const { createBindings } = require('./bindings.js');
const { placeAll, runOnDevice } = require('./device-run.js');
const { readInputs, solveShapes } = require('./inputs.js');
const { keyOf, leave, using } = require('./plans.js');
const { runPlan } = require('./run.js');
const { arrayOver, bytesOf, elementCount } = require('./arrays.js');
const { runOptions } = require('./options.js');
const { Kept, keptOf } = require('./kept.js');
const { prepareStep, runStep, stepFits } = require('./steps.js');
const { onAbort, watched } = require('./watch.js');

/** The files' bytes are let go of when nobody can load plans any more. */
const collected = new FinalizationRegistry((handle) => native.closeOnnx(handle));

let stateOf;

class OnnxModel {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
    if (state.handle !== undefined) collected.register(this, state.handle, state);
  }

  /** What run() takes, in the order of the file. Dimensions that the model leaves open are names. */
  get inputs() {
    return describe(self(this, 'inputs').inputs);
  }

  /** What it gives. Sizes that only a run can tell are null. */
  get outputs() {
    const { only, outputs } = self(this, 'outputs');
    return describe(only !== undefined && !only.walks ? only.outputs : outputs);
  }

  /** Of a model that is one graph of known shapes. */
  get graph() {
    const { only } = self(this, 'graph');
    return only?.walks === false ? only.graph : undefined;
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

  /**
   * Runs the model. The arrays are copied before this returns.
   * @param {Record<string, unknown>} inputs
   * @param {{outputs?: string[] | Record<string, ArrayBufferView | null>, maxBytes?: number, seed?: number, signal?: AbortSignal}} [options]
   * @returns {Promise<Record<string, import('./tensor.js').OnnxTensor | import('./tensor.js').OnnxTensor[] | null>>}
   */
  async run(inputs, options = undefined) {
    const state = self(this, 'run');
    requireUsable(state, 'run');
    const { arrays, shapes } = readInputs('run', state.label, state.inputs, inputs, state.defaults, true);
    const wish = runOptions('run', state, options);
    wish.signal?.throwIfAborted();
    return watched(onAbort(wish.signal), (watch) => runArrays(state, shapes, arrays, wish, watch));
  }

  /**
   * Makes plans for inputs of these shapes, so that no run has to wait for one.
   * @param {Record<string, number[]>[]} list
   */
  async prepare(list) {
    const state = self(this, 'prepare');
    requireUsable(state, 'prepare');
    if (!Array.isArray(list)) throw typeError('prepare', state.label, `found ${show(list)}, allowed an array of shapes by the names of the inputs`);
    const all = list.map((given) => solveShapes('prepare', state.label, state.inputs, given));
    state.running++;
    try {
      if (state.only === undefined) await Promise.all(all.map((shapes) => preparePlan(state, shapes)));
    } finally {
      state.ended();
    }
  }

  /**
   * Tensors for all inputs and outputs; those that are given are used, the others made.
   * @param {{inputs?: object, outputs?: object}} [given]
   */
  async createBindings(given = {}) {
    const state = self(this, 'createBindings');
    requireUsable(state, 'createBindings');
    return createBindings(state, given);
  }

  /** Releases the weights and all plans. Runs in flight are completed. */
  destroy() {
    const state = self(this, 'destroy');
    if (state.destroyed) return;
    state.destroyed = true;
    // A run may still be waiting for its plan.
    if (state.running === 0) close(state);
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(OnnxModel, stateOf);

function self(value, member) {
  const state = stateOf(value);
  if (state === undefined) throw new TypeError(`OnnxModel.${member}: 'this': found ${show(value)}, allowed an OnnxModel`);
  return state;
}

function requireUsable(state, operator) {
  if (state.destroyed) throw invalidState(operator, state.label, 'the OnnxModel was destroyed');
}

function close(state) {
  state.whenClosed?.();
  state.plans.clear();
  if (state.handle !== undefined) {
    collected.unregister(state);
    native.closeOnnx(state.handle);
    state.handle = undefined;
  }
}

/**
 * Ends when the memory of a model that was destroyed has gone back.
 * @param {object} state of the model
 */
async function released({ plans, contextState: { handle, order } }) {
  await plans.ended();
  await ask((request) => order.awaitContext(request, handle));
}

/**
 * A run for whoever has checked all that is given.
 * @param {object} state of the model
 * @param {any[]} shapes of all inputs in their order
 * @param {Record<string, any>} arrays copied before this returns, and elements that are kept
 * @param {{wanted?: Set<string>, targets?: [string, ArrayBufferView][], maxBytes?: number, seed?: number}} wish
 * @param {number} [watch]
 */
async function runArrays(state, shapes, arrays, wish, watch = 0) {
  requireUsable(state, 'run');
  const mayBeStep = state.hasSteps && wish.seed === undefined && wish.maxBytes === undefined;
  const plan = mayBeStep ? undefined : planFor(state, shapes);
  state.running++;
  if (plan !== undefined) plan.running++;
  try {
    if (plan !== undefined) return await runOn(state, plan, looked(arrays), wish, watch);
    return await (mayBeStep ? runAsStep(state, shapes, arrays, wish, watch) : planAndRun(state, shapes, looked(arrays), wish, watch));
  } finally {
    if (plan !== undefined) leave(plan);
    state.ended();
  }
}

/**
 * The same where inputs or outputs stay on the device.
 * @param {object} state of the model
 * @param {number[][]} shapes
 * @param {Record<string, any>} inputs arrays, copied before this returns, and MLTensors of the model's context
 * @param {{wanted: Set<string>, kept: Set<string>, targets: Map<string, object>, watch?: number}} wish
 */
async function runTensors(state, shapes, inputs, wish) {
  requireUsable(state, 'run');
  state.running++;
  try {
    // Whether it is a step may have to be found out while the caller changes its arrays.
    const given = state.hasSteps ? copied(inputs) : inputs;
    const results = state.hasSteps ? await runStepOnTensors(state, shapes, given, wish) : undefined;
    return results ?? (await runOnTensors(state, shapes, given, 'run', () => wish));
  } finally {
    state.ended();
  }
}

/**
 * The same as a step of a model with caches, if it can be one: there what is on the device is memory too. Results of caches are kept, and
 * others written to where they are wanted.
 */
async function runStepOnTensors(state, shapes, inputs, { wanted, kept, targets, watch }) {
  const isReadable = (value) => ArrayBuffer.isView(value) || value instanceof Kept || value?.readable === true;
  if (!Object.values(inputs).every(isReadable)) return undefined;
  // Without a prototype, since '__proto__' is a name like others.
  const given = Object.assign(Object.create(null), inputs);
  const read = async ({ name, dataType }) => {
    const value = given[name];
    if (ArrayBuffer.isView(value) || value instanceof Kept) return;
    given[name] = arrayOver(dataType, await state.context.readTensor(value));
  };
  await Promise.all(state.inputs.map(read));
  const fits = stepFits(state, shapes, given) ?? (await prepareStep(state, shapes, given, 'run'));
  if (!fits) return undefined;
  const results = await runStep(state, shapes, given, { operator: 'run', wanted, watch });
  const others = new Set([...kept].filter((name) => keptOf(results[name], results[name].shape) === undefined));
  return placeAll(state.context, results, { kept: others, targets });
}

/** The same, with what is wished of a plan. */
async function runOnTensors(state, shapes, inputs, operator, wishOf) {
  const copies = copied(looked(inputs));
  const plan = state.only ?? (await state.plans.make(operator, keyOf(shapes), shapes));
  return using(plan, runOnDevice(plan, copies, { label: state.label, ...wishOf(plan) }, state));
}

/** Makes what a run with inputs of these shapes will ask for. */
async function preparePlan(state, shapes) {
  const isStep = state.hasSteps && (await prepareStep(state, shapes, {}, 'prepare'));
  if (!isStep) await state.plans.make('prepare', keyOf(shapes), shapes);
}

/** Copies, since the caller may change its arrays meanwhile. */
function copied(arrays) {
  // Without a prototype, since '__proto__' is a name like others.
  const copies = Object.create(null);
  for (const [name, value] of Object.entries(arrays)) copies[name] = Array.isArray(value) ? value.map(copyOf) : copyOf(value);
  return copies;
}

const copyOf = (value) => (value instanceof Kept ? value.share() : ArrayBuffer.isView(value) ? value.slice() : value);

/** Arrays in place of elements that are kept. */
function looked(arrays) {
  let has = false;
  for (const name in arrays) has ||= arrays[name] instanceof Kept;
  if (!has) return arrays;
  const found = Object.create(null);
  for (const [name, value] of Object.entries(arrays)) found[name] = value instanceof Kept ? value.read() : value;
  return found;
}

/** A run of a model with caches, as a step if it can be one. */
async function runAsStep(state, shapes, arrays, wish, watch) {
  let given = arrays;
  let fits = stepFits(state, shapes, given);
  if (fits === undefined) {
    given = copied(arrays);
    fits = await prepareStep(state, shapes, given, 'run');
  }
  if (!fits) return planAndRun(state, shapes, looked(given), wish, watch);
  const results = await runStep(state, shapes, given, { operator: 'run', wanted: wish.wanted, watch });
  return wish.targets === undefined ? results : fill(state, results, wish.targets, arrays);
}

/** The plan for these shapes, if there is one. */
const planFor = (state, shapes) => state.only ?? state.plans.find(shapes);

/** A run on the plan for these shapes, which may have to be made. */
async function planAndRun(state, shapes, arrays, wish, watch) {
  let plan = planFor(state, shapes);
  let given = arrays;
  if (plan === undefined) {
    given = copied(arrays);
    plan = await state.plans.make('run', keyOf(shapes), shapes);
  }
  return await using(plan, runOn(state, plan, given, wish, watch));
}

/** A run on a plan that the caller holds. */
function runOn(state, plan, arrays, wish, watch) {
  checkBytes(state, plan, wish.maxBytes);
  const { wanted, targets, seed, maxBytes } = wish;
  const results = runPlan(plan, arrays, state, { wanted, seed, maxBytes, watch });
  return targets === undefined ? results : results.then((found) => fill(state, found, targets));
}

/** Puts results into arrays of the caller's, which may be those that were given. */
function fill({ label, pastOf }, results, targets, given = {}) {
  for (const [name, target] of targets) {
    const { shape } = results[name];
    const kept = keptOf(results[name], shape);
    const length = kept === undefined ? results[name].data.length : elementCount(shape);
    if (target.length !== length) {
      throw typeError('run', label, `outputs: ${quote(name)}: found an array of ${target.length} elements, allowed ${length} for the shape [${shape.join(', ')}]`);
    }
    if (kept === undefined) bytesOf(target).set(bytesOf(results[name].data));
    else kept.writeTo(target, given[pastOf.get(name)]);
    results[name].data = target;
  }
  return results;
}

/** Holds what a run takes against the caller's limit, before there is memory for it. */
function checkBytes({ label }, { bytes, runBytes }, maxBytes) {
  if (maxBytes !== undefined && runBytes > maxBytes) {
    const parts = `${bytes} of inputs and outputs, ${runBytes - bytes} of values in between`;
    throw exception('OperationError', `${named('run', label)}: a run takes ${runBytes} bytes (${parts}), allowed at most ${maxBytes} (maxBytes)`);
  }
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

/** The arrays of inputs that need not be passed, if there are such inputs. */
function defaultArrays(inputs) {
  const list = inputs.filter(({ buffer }) => buffer !== undefined);
  if (list.length === 0) return undefined;
  // Without a prototype, since '__proto__' is a name like others.
  const arrays = Object.create(null);
  for (const { name, dataType, buffer } of list) arrays[name] = arrayOver(dataType, buffer);
  return arrays;
}

/**
 * @param {object} state of the model, without what follows from the rest
 * @returns {OnnxModel}
 */
function createModel(state) {
  Object.assign(state, { defaults: defaultArrays(state.inputs), running: 0, destroyed: false });
  /** One of the runs has ended. */
  state.ended = () => {
    state.running--;
    if (state.running > 0) return;
    if (state.destroyed) close(state);
    else state.plans.makeAhead();
  };
  /** Runs for bindings: as a step of a model with caches, if it can be one, and on the device. */
  state.runStep = async (shapes, arrays, operator) => {
    const fits = state.hasSteps && (stepFits(state, shapes, arrays) ?? (await prepareStep(state, shapes, arrays, operator)));
    return fits ? runStep(state, shapes, arrays, { operator }) : undefined;
  };
  state.runOnTensors = (shapes, inputs, operator, wishOf) => runOnTensors(state, shapes, inputs, operator, wishOf);
  state.object = new OnnxModel(construct, state);
  return state.object;
}

/**
 * What stands for a model elsewhere, as sessions of onnxruntime's interface do.
 * @type {WeakMap<object, () => object>} functions that give the state of the model
 */
const standing = new WeakMap();

/** Lets an object stand for a model. */
function standFor(object, model) {
  standing.set(object, model);
}

/** The state of a model, or of that for which something stands; nothing for anything else. */
function modelState(value) {
  return stateOf(value) ?? (typeof value === 'object' && value !== null ? standing.get(value)?.() : undefined);
}

module.exports = { OnnxModel, createModel, modelState, released, runArrays, runTensors, standFor };
