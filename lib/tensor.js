'use strict';

// https://www.w3.org/TR/webnn/#api-mltensor

const { bufferFor, dataTypes } = require('./descriptor.js');
const { construct, expose, illegalUnless, interfaceType, receiverOf } = require('./interface.js');
const { refuseWaiting } = require('./settle.js');

const collected = new FinalizationRegistry(({ order, handle }) => order.destroyTensor(handle));

let stateOf;

class MLTensor {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
    state.object = this;
    collected.register(this, { order: state.context.order, handle: state.handle });
  }

  get dataType() {
    return dataTypes[self(this, 'dataType').dataType];
  }

  get shape() {
    return self(this, 'shape').shape;
  }

  get readable() {
    return self(this, 'readable').readable;
  }

  get writable() {
    return self(this, 'writable').writable;
  }

  get constant() {
    return self(this, 'constant').constant;
  }

  get label() {
    return self(this, 'label').label;
  }

  /** The device that it can be exported to, of a tensor that createExportableTensor() made (docs/extensions.md F2). */
  get gpuDevice() {
    return self(this, 'gpuDevice').gpuDevice ?? null;
  }

  /** Of an earlier text (docs/extensions.md F2). */
  get exportableToGPU() {
    return self(this, 'exportableToGPU').sharing === 'exportable';
  }

  destroy() {
    const tensor = self(this, 'destroy');
    if (tensor.destroyed) return;
    tensor.destroyed = true;
    refuseWaiting(tensor, 'the MLTensor was destroyed before the read was complete');
    tensor.context.order.destroyTensor(tensor.handle);
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(MLTensor, stateOf);
const self = receiverOf('MLTensor', stateOf);

/**
 * "Creating an MLTensor", without its memory, which the native side makes later. The object can be had as soon as there
 * is a handle; script gets it when the memory is there.
 * @param {import('./states').ContextState} context
 * @param {{
 *   dataType: number, shape: number[], label: string, readable?: boolean, writable?: boolean,
 *   exportableToGPU?: boolean, importableToWebGPU?: boolean,
 * }} descriptor
 * @param {boolean} constant
 * @param {GPUDevice} [gpuDevice] that it can be exported to
 * @returns {import('./states').TensorState}
 */
function tensorState(context, descriptor, constant, gpuDevice = undefined) {
  const { dataType, shape, label, readable = false, writable = false, exportableToGPU, importableToWebGPU } = descriptor;
  const asked = exportableToGPU ? 'exportable' : importableToWebGPU ? 'importable' : undefined;
  const buffer = bufferFor(dataType, shape);
  return {
    context,
    handle: 0,
    dataType,
    shape: Object.freeze(shape),
    label,
    readable,
    writable,
    constant,
    buffer,
    destroyed: false,
    waiting: 0,
    object: undefined,
    sharing: gpuDevice === undefined ? asked : 'draft',
    gpuDevice,
    rental: undefined,
  };
}

function createTensor(state) {
  return new MLTensor(construct, state);
}

/**
 * An MLTensor whose memory is a GPUBuffer of script's, on a context of its device. The buffer stays script's.
 * @param {import('./states').ContextState} context
 * @param {{dataType: number, shape: number[], label: string}} descriptor
 * @param {GPUBuffer} gpuBuffer large enough
 */
function tensorOverBuffer(context, descriptor, gpuBuffer) {
  const state = tensorState(context, descriptor, false);
  state.handle = context.order.timeline.adopt(gpuBuffer, state.dataType, descriptor.shape, descriptor.label);
  return createTensor(state);
}

/**
 * An MLTensor for what the native side has computed and given away.
 * @param {import('./states').ContextState} context
 * @param {{dataType: number, shape: number[], label: string}} descriptor
 * @param {number} number under which the timeline has it
 */
function tensorOfNumber(context, descriptor, number) {
  const state = tensorState(context, { ...descriptor, shape: [...descriptor.shape], readable: true, writable: true }, false);
  state.handle = context.order.timeline.tensorOfNumber(context.handle, state.dataType, descriptor.shape, number);
  return createTensor(state);
}

/** "isDestroyed": losing the context destroys all its tensors. */
function isDestroyed(state) {
  return state.destroyed || state.context.lost;
}

module.exports = { MLTensor, createTensor, isDestroyed, tensorOfNumber, tensorOverBuffer, tensorState, toTensor: interfaceType('MLTensor', stateOf) };
