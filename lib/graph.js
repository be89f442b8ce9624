'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraph

const native = require('./native.js');
const { bufferFor, dataTypes } = require('./descriptor.js');
const { construct, expose, illegalUnless, interfaceType, receiverOf } = require('./interface.js');
const { refuseWaiting } = require('./settle.js');

const collected = new FinalizationRegistry(release);

/** By the device of a context. */
const DEVICES = { cpu: Object.freeze(['cpu']), gpu: Object.freeze(['gpu']) };

let stateOf;

class MLGraph {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
    // Who refers to the state thereby keeps the object, and so the native graph.
    state.object = this;
    collected.register(this, { order: state.context.order, handle: state.handle, kept: state.kept });
  }

  get label() {
    return self(this, 'label').label;
  }

  /** An extension, as Chromium has it: where the graph runs, a frozen array (docs/extensions.md C15). */
  get devices() {
    return DEVICES[self(this, 'devices').context.device];
  }

  /** Of the cache explainer (docs/extensions.md C23): what the graph's inputs are, by name. */
  get inputs() {
    const graph = self(this, 'inputs');
    return (graph.described.inputs ??= described(graph.inputs));
  }

  /** Likewise of its outputs. */
  get outputs() {
    const graph = self(this, 'outputs');
    return (graph.described.outputs ??= described(graph.outputs));
  }

  destroy() {
    const graph = self(this, 'destroy');
    if (graph.destroyed) return;
    graph.destroyed = true;
    refuseWaiting(graph, 'the MLGraph was destroyed before the computation was complete');
    release({ order: graph.context.order, handle: graph.handle, kept: graph.kept });
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(MLGraph, stateOf);
const self = receiverOf('MLGraph', stateOf);

/** Releases the native graph, and what saveGraph() could have saved. */
function release({ order, handle, kept }) {
  order.destroyGraph(handle);
  if (kept !== undefined) native.dropSavableGraph(kept);
}

/** A frozen record of frozen MLOperandDescriptors. */
function described(bindings) {
  const descriptor = ({ dataType, shape }) => Object.freeze({ dataType: dataTypes[dataType], shape: Object.freeze([...shape]) });
  return Object.freeze(Object.fromEntries([...bindings].map(([name, binding]) => [name, descriptor(binding)])));
}

/** Names with their positions in a dispatch, and what has to be there: a tensor of that descriptor, or so much memory. */
function descriptors(list) {
  return new Map(
    list.map(([name, dataType, shape], position) => [name, { position, dataType, shape, ...bufferFor(dataType, shape) }]),
  );
}

/**
 * @param {import('./states').ContextState} context
 * @param {number} handle
 * @param {string} label
 * @param {{inputs: [string, number, number[]][], outputs: [string, number, number[]][]}} built
 * @param {number} [kept] what saveGraph() can save
 */
function createGraph(context, handle, label, { inputs, outputs }, kept = undefined) {
  /** @type {import('./states').GraphState} */
  const state = {
    context,
    handle,
    label,
    destroyed: false,
    inputs: descriptors(inputs),
    outputs: descriptors(outputs),
    described: { inputs: undefined, outputs: undefined },
    kept,
    waiting: 0,
    object: undefined,
  };
  return new MLGraph(construct, state);
}

module.exports = { MLGraph, createGraph, toGraph: interfaceType('MLGraph', stateOf) };
