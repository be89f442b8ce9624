'use strict';

// A model that was loaded: run() for typed arrays, bindings for tensors.

const { dataTypes } = require('../descriptor.js');
const { exception, invalidState, named, typeError } = require('../errors.js');
const { construct, expose, illegalUnless } = require('../interface.js');
const { show } = require('../show.js');
const { toGraph } = require('../graph.js');
const { OutputPrefetch } = require('./output-prefetch.js');
const { arrayOver, checkArrays } = require('./arrays.js');
const { createBindings } = require('./bindings.js');
const { Idle } = require('./idle.js');
const { release, runInMemory, runOnTensors } = require('./run.js');

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
   * @param {{maxBytes?: number}} [options]
   * @returns {Promise<Record<string, ArrayBufferView>>}
   */
  async run(inputs, options = undefined) {
    const state = self(this, 'run');
    requireUsable(state, 'run');
    checkArrays('run', state.label, state.inputs, inputs);
    if (options !== undefined) checkBytes(state, options);
    const arrays = state.defaults === undefined ? inputs : { ...state.defaults, ...inputs };
    state.running++;
    try {
      return await (state.graphState.context.device === 'gpu' ? runOnTensors : runInMemory)(state, arrays);
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
    state.prefetch.forget();
    state.idle.clear();
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

/** Holds what a run takes against the caller's limit, before there is memory for it. */
function checkBytes({ label, bytes, runBytes }, options) {
  if (options === null || typeof options !== 'object') {
    throw typeError('run', label, `options: found ${show(options)}, allowed an object`);
  }
  const { maxBytes = Infinity } = options;
  requireBytes('run', label, maxBytes);
  if (runBytes > maxBytes) {
    const parts = `${bytes} of inputs and outputs, ${runBytes - bytes} of values in between`;
    throw exception('OperationError', `${named('run', label)}: a run takes ${runBytes} bytes (${parts}), allowed at most ${maxBytes} (maxBytes)`);
  }
}

/** A limit that a caller gave. */
function requireBytes(operator, label, maxBytes) {
  if (typeof maxBytes === 'number' && maxBytes >= 0) return maxBytes;
  throw typeError(operator, label, `options: maxBytes: found ${show(maxBytes)}, allowed a number of bytes`);
}

/** Copies for the caller. */
function describe(list) {
  return list.map(({ name, type, dataType, shape, optional }) => ({ name, type, dataType, shape: [...shape], ...(optional && { optional }) }));
}

/** @typedef {[string, number, number[], boolean, string, ArrayBuffer | undefined]} Signature */

/**
 * @param {object} context
 * @param {object} graph
 * @param {{modelInputs: Signature[], modelOutputs: Signature[], runBytes: number}} imported
 * @param {string} label
 */
function createModel(context, graph, { modelInputs, modelOutputs, runBytes }, label) {
  const signature = ([name, dataType, shape, used, type]) => ({ name, type, dataType: dataTypes[dataType], shape, used });
  const inputs = modelInputs.map((input) => ({ ...signature(input), optional: input[5] !== undefined }));
  const defaults = defaultArrays(modelInputs);
  const outputs = modelOutputs.map(signature);
  const used = inputs.filter((input) => input.used);
  const graphState = toGraph(graph);
  let bytes = 0;
  for (const { byteLength } of [...graphState.inputs.values(), ...graphState.outputs.values()]) bytes += byteLength;
  const idle = new Idle(bytes, release);
  return new OnnxModel(construct, { context, graph, graphState, label, inputs, outputs, used, defaults, bytes, runBytes, idle, prefetch: new OutputPrefetch(), running: 0, destroyed: false });
}

/** The arrays of inputs that need not be passed, if there are such inputs. */
function defaultArrays(modelInputs) {
  const list = modelInputs.filter(([, , , , , buffer]) => buffer !== undefined);
  if (list.length === 0) return undefined;
  // Without a prototype, since '__proto__' is a name like others.
  const arrays = Object.create(null);
  for (const [name, dataType, , , , buffer] of list) arrays[name] = arrayOver(dataTypes[dataType], buffer);
  return arrays;
}

module.exports = { OnnxModel, createModel, requireBytes };
