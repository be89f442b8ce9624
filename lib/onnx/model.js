'use strict';

// A model that was loaded: run() for typed arrays, bindings for tensors.

const { dataTypes } = require('../descriptor.js');
const { invalidState } = require('../errors.js');
const { construct, expose, illegalUnless } = require('../interface.js');
const { show } = require('../show.js');
const { arrayOver, checkArrays } = require('./arrays.js');
const { bytesOf, createBindings } = require('./bindings.js');

let stateOf;

class OnnxModel {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
  }

  /** What run() takes, in the order of the file. */
  get inputs() {
    return describe(self(this, 'inputs').inputs);
  }

  get outputs() {
    return describe(self(this, 'outputs').outputs);
  }

  get graph() {
    return self(this, 'graph').graph;
  }

  get label() {
    return self(this, 'label').label;
  }

  /**
   * Runs the model. The arrays are copied before this returns.
   * @param {Record<string, ArrayBufferView>} inputs
   * @returns {Promise<Record<string, ArrayBufferView>>}
   */
  async run(inputs) {
    const state = self(this, 'run');
    requireUsable(state, 'run');
    checkArrays('run', state.label, state.inputs, inputs);
    state.running++;
    try {
      const tensors = state.idle.pop();
      // Without a set of tensors at hand the caller may change the arrays while one is made.
      if (tensors === undefined) return await runOn(state, await newTensors(state, inputs), undefined);
      return await runOn(state, tensors, inputs);
    } finally {
      state.running--;
      if (state.destroyed && state.running === 0) state.graph.destroy();
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

  /** Releases the graph, and the tensors of run(). Runs in flight are completed. */
  destroy() {
    const state = self(this, 'destroy');
    if (state.destroyed) return;
    state.destroyed = true;
    for (const tensors of state.idle) release(tensors);
    state.idle.length = 0;
    // A run may still be making its tensors.
    if (state.running === 0) state.graph.destroy();
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

/** Copies for the caller. */
function describe(list) {
  return list.map(({ name, dataType, shape }) => ({ name, dataType, shape: [...shape] }));
}

/** A set of tensors with the inputs written. */
async function newTensors(state, given) {
  const { context } = state;
  const copies = Object.fromEntries(state.used.map(({ name }) => [name, bytesOf(given[name]).slice()]));
  const tensors = { inputs: {}, outputs: {} };
  const create = (into, list, options) =>
    list.map(async ({ name, dataType, shape }) => {
      into[name] = await context.createTensor({ dataType, shape, ...options, label: name });
    });
  const made = [...create(tensors.inputs, state.used, { writable: true }), ...create(tensors.outputs, state.outputs, { readable: true })];
  // All of them, so that what was made beside a failure can be destroyed.
  const settled = await Promise.allSettled(made);
  try {
    for (const { reason } of settled.filter(({ status }) => status === 'rejected')) throw reason;
    write(state, tensors, copies);
  } catch (error) {
    release(tensors);
    throw error;
  }
  return tensors;
}

/** As bytes, so that arrays which only we take pass the check of writeTensor(). */
function write({ context, used }, tensors, arrays) {
  for (const { name } of used) context.writeTensor(tensors.inputs[name], bytesOf(arrays[name]));
}

/** One run on a set of tensors, which is free for others afterwards. */
async function runOn(state, tensors, arrays) {
  const { context, graph, label, outputs } = state;
  try {
    if (arrays !== undefined) write(state, tensors, arrays);
    context.dispatch(graph, tensors.inputs, tensors.outputs, { label });
    const buffers = await Promise.all(outputs.map(({ name }) => context.readTensor(tensors.outputs[name])));
    return Object.fromEntries(outputs.map(({ name, dataType }, i) => [name, arrayOver(dataType, buffers[i])]));
  } finally {
    if (state.destroyed) release(tensors);
    else state.idle.push(tensors);
  }
}

function release({ inputs, outputs }) {
  for (const tensor of [...Object.values(inputs), ...Object.values(outputs)]) tensor.destroy();
}

/**
 * @param {object} context
 * @param {object} graph
 * @param {{modelInputs: [string, number, number[], boolean][], modelOutputs: [string, number, number[], boolean][]}} imported
 * @param {string} label
 */
function createModel(context, graph, { modelInputs, modelOutputs }, label) {
  const signature = ([name, dataType, shape, used]) => ({ name, dataType: dataTypes[dataType], shape, used });
  const inputs = modelInputs.map(signature);
  const outputs = modelOutputs.map(signature);
  const used = inputs.filter((input) => input.used);
  /** Sets of tensors that no run uses: as many as there were runs in flight at once. */
  const idle = [];
  return new OnnxModel(construct, { context, graph, label, inputs, outputs, used, idle, running: 0, destroyed: false });
}

module.exports = { OnnxModel, createModel };
