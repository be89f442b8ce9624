'use strict';

// OnnxBindings: values bound to the inputs and outputs of a model, for running it step by step.

const { dispatchUnder } = require('../context.js');
const { invalidState, typeError } = require('../errors.js');
const { construct, expose, illegalUnless, receiverOf } = require('../interface.js');
const { quote, show } = require('../show.js');
const { toTensor } = require('../tensor.js');
const { arrayOver, bytesOf } = require('./arrays.js');
const { readInputs } = require('./inputs.js');
const { DEVICE, allOf } = require('./places.js');
const { profileRun } = require('./profile.js');
const { UnreadElements, unreadOf, unreadTensor } = require('./unread.js');
const { resultTensor } = require('./tensor.js');
const { watched } = require('./watch.js');

let stateOf;

class OnnxBindings {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
  }

  /** What is bound, by the names of the inputs. */
  get inputs() {
    return { ...self(this, 'inputs').inputs };
  }

  get outputs() {
    return { ...self(this, 'outputs').outputs };
  }

  /** Writes an input: an array, or one with its shape. */
  write(name, value) {
    const state = self(this, 'write');
    const input = find(state, 'write', state.takes, name);
    const { values, shapes } = readInputs('write', state.label, [{ ...input, optional: false }], { [name]: value }, { keeps: state.keeps });
    state.write(input, values[name], shapes[0]);
  }

  /**
   * Reads an output.
   * @param {string} name
   */
  async read(name) {
    const state = self(this, 'read');
    return await state.read(find(state, 'read', state.gives, name));
  }

  /** Runs the model on what is bound now. Nothing needs to be awaited between dispatches; a failure shows where results are read. */
  dispatch() {
    const state = self(this, 'dispatch');
    if (state.destroyed) throw invalidState('dispatch', state.label, 'the bindings were destroyed');
    state.dispatch();
  }

  /** Exchanges an input's value with an output's: what a step computed is what the next one starts from. */
  swap(inputName, outputName) {
    const state = self(this, 'swap');
    const input = find(state, 'swap', state.takes, inputName);
    const output = find(state, 'swap', state.gives, outputName);
    state.swap(input, output);
  }

  /** Destroys the tensors that were made for these bindings; the caller's stay. */
  destroy() {
    const state = self(this, 'destroy');
    if (state.destroyed) return;
    state.destroyed = true;
    state.release();
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(OnnxBindings, stateOf);
const self = receiverOf('OnnxBindings', stateOf);

function find({ label }, operator, list, name) {
  const found = list.find((candidate) => candidate.name === name);
  if (found === undefined) {
    throw typeError(operator, label, `name: found ${show(name)}, allowed ${list.map((candidate) => quote(candidate.name)).join(', ')}`);
  }
  return found;
}

function text({ name, dataType, shape }) {
  return `${quote(name)} of ${dataType}[${shape?.join(', ') ?? '?'}]`;
}

function requireLike(label, input, output) {
  throw typeError('swap', label, `found ${text(input)} and ${text(output)}, allowed an input and an output of one data type and shape`);
}

/** Of a model that is one graph of known shapes: tensors, which stay on the device. */
class GraphBindings {
  destroyed = false;

  constructor(model, plan, inputs, outputs, own) {
    const { context, label } = model;
    Object.assign(this, { model, context, label, graph: plan.graph, inputs, outputs, own });
    this.takes = model.inputs.filter(({ name }) => plan.graphState.inputs.has(name));
    this.gives = plan.outputs;
  }

  write({ name }, array) {
    this.context.writeTensor(this.inputs[name], bytesOf(array));
  }

  async read({ name, dataType, shape }) {
    return resultTensor(dataType, arrayOver(dataType, await this.context.readTensor(this.outputs[name])), [...shape]);
  }

  dispatch() {
    const { context, model } = this;
    const dispatched = [this.graph, this.inputs, this.outputs, { label: this.label }];
    if (model.profile === undefined) {
      context.dispatch(...dispatched);
      return;
    }
    let begun;
    const work = (watch) => {
      begun = dispatchUnder(context, dispatched, watch);
      return begun;
    };
    // A failure of the dispatch shows where results are read, and one to begin it here.
    watched(undefined, work, profileRun(model.profile)).catch(() => {});
    if (begun === undefined) context.dispatch(...dispatched);
  }

  swap(input, output) {
    if (input.dataType !== output.dataType || `${input.shape}` !== `${output.shape}`) requireLike(this.label, input, output);
    const { inputs, outputs } = this;
    [inputs[input.name], outputs[output.name]] = [outputs[output.name], inputs[input.name]];
  }

  release() {
    for (const tensor of this.own) tensor.destroy();
  }
}

/** A tensor over a copy of an array, or over elements that are kept; a list for a sequence's arrays, and null without content. */
function copyOf(dataType, array, shape) {
  if (array === undefined) return null;
  if (Array.isArray(array)) return array.map((each, position) => copyOf(dataType, each, shape[position]));
  return array instanceof UnreadElements ? unreadTensor(array.share()) : resultTensor(dataType, array.slice(), [...shape]);
}

/** Elements in memory, or on the device; the tensors of a sequence, and null for no content. @typedef {any} Value */

/**
 * Of other models: values with the shapes that they have from step to step. What a step computes stays on the device, but for sequences. A
 * step is handed over when its plan is there, and does not wait for the one before it to end, unless the model is cut.
 */
class ValueBindings {
  destroyed = false;
  keeps = true;
  #model;
  /** @type {Record<string, Value>} */
  #inputs;
  /** @type {Record<string, Value>} */
  #outputs = Object.create(null);
  /** Tensors of the caller's that take outputs, by name. */
  #targets;
  /** Tensors that were made here. */
  #own = new Set();
  /** Ends when all steps so far have been handed over. */
  #steps = Promise.resolve();

  constructor(model, inputs, targets) {
    this.#model = model;
    this.#inputs = inputs;
    this.#targets = targets;
    this.label = model.label;
    this.takes = model.inputs;
    this.gives = model.outputs;
  }

  get inputs() {
    return this.#inputs;
  }

  get outputs() {
    return this.#outputs;
  }

  /** Does something when the steps so far have been handed over; a failure stays until a step succeeds. */
  #then(work) {
    const steps = this.#steps.then(work, work);
    // A read rejects with it.
    steps.catch(() => {});
    this.#steps = steps;
  }

  write({ name, dataType }, array, shape) {
    const value = copyOf(dataType, array, shape);
    this.#then(() => {
      const tensor = this.#inputs[name];
      if (isTensor(tensor) && `${tensor.shape}` === `${shape}`) this.#model.context.writeTensor(tensor, bytesOf(value.data));
      else this.#bind({ ...this.#inputs, [name]: value }, this.#outputs);
    });
  }

  async read({ name }) {
    await this.#steps;
    const value = this.#outputs[name];
    if (value === undefined) throw invalidState('read', this.label, `nothing has been computed for ${quote(name)}`);
    if (value === null) return null;
    if (Array.isArray(value)) return value.map(({ dataType, data, shape }) => copyOf(dataType, data, shape));
    const { dataType, shape } = value;
    if (isTensor(value)) return resultTensor(dataType, arrayOver(dataType, await this.#model.context.readTensor(value)), [...shape]);
    return copyOf(dataType, unreadOf(value, shape) ?? value.data, shape);
  }

  dispatch() {
    const model = this.#model;
    const { profile } = model;
    model.enter();
    this.#then(async () => {
      try {
        const given = model.read('dispatch', this.#inputs, isTensor);
        this.#bind(this.#inputs, await watched(undefined, (watch) => this.#run(given, watch), profile && profileRun(profile)));
        if (this.destroyed) this.release();
      } finally {
        model.leave();
      }
    });
  }

  async #run(given, watch) {
    // Caches that a step of a decoder appends to stay where they are by themselves.
    const mayBeStep = this.#targets.size === 0 && !given.hasTensors;
    const step = mayBeStep ? await this.#model.runAsStep(given, { operator: 'dispatch', watch }) : undefined;
    return step ?? (await this.#runOnDevice(given, watch));
  }

  async #runOnDevice(given, watch) {
    const stay = this.#model.outputs.map(({ name }) => [name, DEVICE]);
    const results = await this.#model.runByPlan(given, { operator: 'dispatch', watch, places: new Map([...stay, ...this.#targets]) });
    const bound = Object.entries(results).map(([name, result]) => {
      if (result === null || Array.isArray(result)) return [name, result];
      const { dataType, shape, data, tensor } = result;
      if (tensor !== undefined && !this.#targets.has(name)) this.#own.add(tensor);
      return [name, tensor ?? resultTensor(dataType, data, shape)];
    });
    return Object.fromEntries(bound);
  }

  swap(input, output) {
    this.#then(() => {
      const [taken, given] = [this.#inputs[input.name], this.#outputs[output.name]];
      if (given === undefined) throw invalidState('swap', this.label, `nothing has been computed for ${quote(output.name)}`);
      const like = Array.isArray(given) ? given[0] : given;
      const fits = given === null ? input.optional : Boolean(input.sequence) === Array.isArray(given) && (like === undefined || like.dataType === input.dataType);
      if (!fits) requireLike(this.label, input, { ...output, dataType: like?.dataType ?? output.dataType, shape: like?.shape ?? [] });
      this.#bind({ ...this.#inputs, [input.name]: given }, { ...this.#outputs, [output.name]: taken });
      if (this.#targets.delete(output.name) && isTensor(taken)) this.#targets.set(output.name, taken);
    });
  }

  /** Binds values. Tensors that were made here go when nothing is bound to them any more. */
  #bind(inputs, outputs) {
    const present = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
    this.#inputs = present(inputs);
    this.#outputs = present(outputs);
    const bound = new Set([...Object.values(this.#inputs), ...Object.values(this.#outputs)]);
    for (const tensor of this.#own) {
      if (bound.has(tensor)) continue;
      this.#own.delete(tensor);
      tensor.destroy();
    }
  }

  release() {
    this.#bind({}, {});
  }
}

function isTensor(value) {
  try {
    toTensor(value);
    return true;
  } catch {
    return false;
  }
}

/**
 * Binds the tensors that are given, and makes the others.
 * @param {import('./model.js').Model} model
 * @param {{inputs?: object, outputs?: object}} given
 */
async function createBindings(model, { inputs = {}, outputs = {} }) {
  const { label, oneGraph } = model;
  if (oneGraph !== undefined) return new OnnxBindings(construct, await graphBindings(model, oneGraph, inputs, outputs));
  const values = Object.create(null);
  for (const [name, value] of Object.entries(inputs)) {
    const signature = find({ label }, 'createBindings', model.inputs, name);
    const all = [{ ...signature, optional: false }];
    const { values: arrays, shapes } = readInputs('createBindings', label, all, { [name]: value }, { keeps: true, isTensor });
    values[name] = isTensor(value) ? value : copyOf(signature.dataType, arrays[name], shapes[0]);
  }
  const targets = new Map();
  for (const [name, tensor] of Object.entries(outputs)) {
    const { dataType } = find({ label }, 'createBindings', model.outputs, name);
    // Its shape is that of the results, or a step fails.
    const shape = isTensor(tensor) ? tensor.shape : [];
    targets.set(name, checkTensor('outputs', label, { name, dataType: dataType ?? tensor?.dataType, shape }, tensor));
  }
  return new OnnxBindings(construct, new ValueBindings(model, values, targets));
}

async function graphBindings(model, plan, givenInputs, givenOutputs) {
  const { context, label } = model;
  const own = [];
  const bind = async (argument, signatures, given) => {
    const known = new Set(signatures.map(({ name }) => name));
    const unknown = Object.keys(given).find((name) => !known.has(name));
    if (unknown !== undefined) {
      throw typeError('createBindings', label, `${argument}: found ${quote(unknown)}, allowed ${[...known].map(quote).join(', ') || 'no name'}`);
    }
    const tensors = signatures.map(async (signature) => {
      const { name, dataType, shape } = signature;
      if (!Object.hasOwn(given, name) || given[name] === undefined) {
        // Both may be exchanged, so both can be written and read.
        const tensor = await context.createTensor({ dataType, shape, readable: true, writable: true, label: name });
        own.push(tensor);
        return [name, tensor];
      }
      return [name, checkTensor(argument, label, signature, given[name])];
    });
    return Object.fromEntries(await allOf(tensors));
  };
  try {
    const used = model.inputs.filter(({ name }) => plan.graphState.inputs.has(name));
    const inputs = await bind('inputs', used, givenInputs);
    const outputs = await bind('outputs', plan.outputs.filter(({ known }) => known === undefined), givenOutputs);
    for (const { name } of used) {
      if (model.defaults?.[name] !== undefined && givenInputs[name] === undefined) context.writeTensor(inputs[name], bytesOf(model.defaults[name]));
    }
    return new GraphBindings(model, plan, inputs, outputs, own);
  } catch (error) {
    for (const tensor of own) tensor.destroy();
    throw error;
  }
}

function checkTensor(argument, label, { name, dataType, shape }, tensor) {
  try {
    toTensor(tensor);
  } catch {
    throw typeError('createBindings', label, `${argument}: ${quote(name)}: found ${show(tensor)}, allowed an MLTensor`);
  }
  if (tensor.dataType !== dataType || `${tensor.shape}` !== `${shape}`) {
    const found = text({ name: tensor.label, dataType: tensor.dataType, shape: tensor.shape });
    throw typeError('createBindings', label, `${argument}: ${quote(name)}: found an MLTensor ${found}, allowed ${dataType}[${shape.join(', ')}]`);
  }
  return tensor;
}

module.exports = { OnnxBindings, createBindings };
