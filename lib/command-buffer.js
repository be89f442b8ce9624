'use strict';

// Recorded work that can be submitted again and again (docs/extensions.md D5).

const { CONTEXT_LOST, invalidState, named, typeError, nativeError } = require('./errors.js');
const { construct, expose, illegalUnless, interfaceType, receiverOf } = require('./interface.js');
const { isDestroyed } = require('./tensor.js');
const { isGPUCommandBuffer } = require('./webgpu/device.js');
const { isExported } = require('./webgpu/sharing.js');

/**
 * @typedef {object} Recorded
 * @property {import('./states').GraphState[]} graphs
 * @property {import('./states').TensorState[]} tensors
 * @property {{graph: import('./states').GraphState, handles: number[], label: string}[]} dispatches
 */

const collected = new FinalizationRegistry(({ order, handle }) => order.destroyCommandBuffer(handle));

let stateOf;

class MLCommandBuffer {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
    // Who refers to the state thereby keeps the object, and so the native commands.
    state.object = this;
    collected.register(this, { order: state.context.order, handle: state.handle });
  }

  get label() {
    return self(this, 'label').label;
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(MLCommandBuffer, stateOf);
const self = receiverOf('MLCommandBuffer', stateOf);

/**
 * @param {import('./states').ContextState} context
 * @param {string} label
 * @param {Recorded} recorded
 *   every graph and tensor once, so that they stay alive and can be asked whether they were destroyed
 */
function createCommandBuffer(context, label, { graphs, tensors, dispatches }) {
  const state = { context, handle: 0, label, graphs, tensors, object: undefined };
  try {
    state.handle = context.order.createCommandBuffer(
      context.handle,
      dispatches.map(({ graph }) => graph.handle),
      dispatches.map(({ handles }) => handles.length),
      dispatches.flatMap(({ handles }) => handles),
      dispatches.map((dispatch) => dispatch.label),
      state,
      dispatches.map(({ graph }) => graph.inputs.size),
    );
    return new MLCommandBuffer(construct, state);
  } catch (error) {
    throw nativeError(error);
  }
}

/**
 * An element of what is submitted: a command buffer of WebNN's, or, where the context is on a GPUDevice, one of WebGPU's (docs/extensions.md F5).
 * @param {import('./states').ContextState} context
 */
function toAnyCommandBuffer({ gpuDevice }) {
  if (gpuDevice === undefined) return toCommandBuffer;
  return (value) => (isGPUCommandBuffer(value) ? { gpu: value } : toCommandBuffer(value));
}

const toCommandBuffer = interfaceType('MLCommandBuffer', stateOf);

/** `context.submit()`: everything is checked before anything of it runs. */
function submit(context, buffers) {
  const recorded = buffers.filter(({ gpu }) => gpu === undefined);
  buffers.forEach((buffer, i) => {
    if (buffer.gpu === undefined && buffer.context !== context) {
      throw typeError('submit', buffer.label, `commandBuffers: element ${i}: found an MLCommandBuffer of another MLContext, allowed one that was recorded for this one`);
    }
  });
  if (context.lost) throw invalidState('submit', '', CONTEXT_LOST);
  recorded.forEach(requireAlive);
  try {
    context.order.submit(context.handle, buffers.map(({ gpu, handle }) => gpu ?? handle));
  } catch (error) {
    throw nativeError(error);
  }
}

function requireAlive({ label, graphs, tensors }) {
  const graph = graphs.find(({ destroyed }) => destroyed);
  if (graph) throw invalidState('submit', label, `${named('the MLGraph', graph.label)} of a recorded dispatch was destroyed`);
  const exported = tensors.find(isExported);
  if (exported) throw typeError('submit', label, `${named('the MLTensor', exported.label)} of a recorded dispatch is exported to WebGPU`);
  const tensor = tensors.find(isDestroyed);
  if (tensor) throw invalidState('submit', label, `${named('the MLTensor', tensor.label)} of a recorded dispatch was destroyed`);
}

module.exports = { MLCommandBuffer, createCommandBuffer, submit, toAnyCommandBuffer };
