'use strict';

// Tensors that stay on the device. The `mlTensor` or `gpuBuffer` of onnxruntime-common is an MLTensor here. If the program passed its own GPUDevice,
// a `gpuBuffer` is a GPUBuffer of that device, the memory of an MLTensor, and nothing is copied. The device's queue orders all work by the calls,
// the program's own work, too.

const { arrayOver, bytesOf } = require('../onnx/arrays.js');
const { bufferFor, dataTypes } = require('../descriptor.js');
const { CONTEXT_LOST, invalidState } = require('../errors.js');
const { begin } = require('../settle.js');
const { createTensor, tensorOverBuffer, tensorState, toTensor } = require('../tensor.js');
const { bufferSize } = require('../webgpu/device.js');
const { Tensor } = require('./common.js');
const { ELEMENTS, heldBy } = require('./elements.js');

/** Types that onnxruntime-common lets tensors of a location have. */
const TYPES = {
  'gpu-buffer': ['float32', 'float16', 'int32', 'int64', 'uint32', 'uint8', 'bool', 'uint4', 'int4'],
  'ml-tensor': ['float32', 'float16', 'int32', 'int64', 'uint32', 'uint64', 'int8', 'uint8', 'bool', 'uint4', 'int4'],
};

/** Whether outputs of a type can be kept in a location. */
const canBeKept = (location, type) => TYPES[location].includes(type) && ELEMENTS[type].into === undefined;

/** How many runs that are under way use a tensor, and whether it is to go with the last of them. @type {WeakMap<object, {runs: number, goes: boolean}>} */
const uses = new WeakMap();

/**
 * Keeps tensors until a run has ended, if they are disposed of meanwhile.
 * @param {object[]} mlTensors
 * @returns {() => void} for the end of the run
 */
function hold(mlTensors) {
  if (mlTensors.length === 0) return nothingHeld;
  for (const mlTensor of mlTensors) {
    const use = uses.get(mlTensor) ?? { runs: 0, goes: false };
    use.runs++;
    uses.set(mlTensor, use);
  }
  return () => {
    for (const mlTensor of mlTensors) {
      const use = uses.get(mlTensor);
      if (--use.runs > 0) continue;
      uses.delete(mlTensor);
      if (use.goes) mlTensor.destroy();
    }
  };
}

function nothingHeld() {}

function destroy(mlTensor) {
  const use = uses.get(mlTensor);
  if (use === undefined) mlTensor.destroy();
  else use.goes = true;
}

/** The tensor of onnxruntime-common over an MLTensor, which then is that tensor's. */
function tensorOver(location, type, dims, mlTensor, context) {
  const options = {
    dataType: type,
    dims,
    download: async () => arrayOver(heldBy(type), await context.readTensor(mlTensor)),
    dispose: () => destroy(mlTensor),
  };
  if (location === 'ml-tensor') return Tensor.fromMLTensor(mlTensor, options);
  const { context: { gpuDevice }, handle } = toTensor(mlTensor);
  if (gpuDevice === undefined) return Tensor.fromGpuBuffer(mlTensor, options);
  byBuffer.set(handle.buffer, mlTensor);
  return Tensor.fromGpuBuffer(handle.buffer, options);
}

/**
 * An MLTensor of these elements, at once: its memory is made, and written, before whatever uses it. Without memory that fails.
 * @param {object} contextState
 * @param {string} type
 * @param {number[]} dims
 * @param {ArrayBufferView} array
 */
function tensorOf(contextState, type, dims, array) {
  const { handle, object, order } = contextState;
  if (contextState.lost) throw invalidState('createTensor', '', CONTEXT_LOST);
  const dataType = dataTypes.indexOf(heldBy(type));
  const state = tensorState(contextState, { dataType, shape: [...dims], label: '', readable: true, writable: true }, false);
  const entry = { operator: 'createTensor', label: '', context: contextState, arrive: () => undefined };
  const creation = begin(entry, (request) => {
    state.handle = order.createTensor(request, handle, dataType, state.shape, true, true, '');
  });
  creation.catch(() => {});
  const tensor = createTensor(state);
  object.writeTensor(tensor, bytesOf(array));
  return tensor;
}

/** The MLTensors of results, which live as long as the GPUBuffers that are their memory. @type {WeakMap<object, object>} */
const byBuffer = new WeakMap();

/**
 * A value with its MLTensor, where it is a GPUBuffer: that which has it for memory.
 * @param {import('./values.js').Value} value
 * @param {object} contextState of the session
 */
function located(value, contextState) {
  const { type, dims, gpuBuffer } = value;
  if (gpuBuffer === undefined) return value;
  if (contextState.gpuDevice === undefined) {
    throw new TypeError("Tensor.gpuBuffer must be an MLTensor of webnn-node: GPUBuffers are taken with the execution provider { name: 'webgpu', device }");
  }
  const mlTensor = byBuffer.get(gpuBuffer);
  if (mlTensor !== undefined && fits({ type, dims, mlTensor }, contextState)) return { type, dims, mlTensor };
  const dataType = dataTypes.indexOf(heldBy(type));
  const needed = bufferSize(bufferFor(dataType, dims).byteLength);
  if (gpuBuffer.size < needed) throw new Error(`Tensor.gpuBuffer of ${type}[${dims}] has ${gpuBuffer.size} bytes, allowed ${needed} or more`);
  return { type, dims, mlTensor: tensorOverBuffer(contextState, { dataType, shape: [...dims], label: '' }, gpuBuffer) };
}

/** Whether an MLTensor can be bound as it is. */
function fits({ type, dims, mlTensor }, contextState) {
  const { context, dataType, shape } = toTensor(mlTensor);
  return context === contextState && dataTypes[dataType] === heldBy(type) && `${shape}` === `${dims}`;
}

/** The elements of an MLTensor of another context, or with other dimensions. */
async function download({ type, dims, mlTensor }) {
  const { context, dataType, shape } = toTensor(mlTensor);
  const count = (sizes) => sizes.reduce((product, size) => product * size, 1);
  if (dataTypes[dataType] !== heldBy(type) || count(shape) !== count(dims)) {
    throw new Error(`Tensor of ${type}[${dims}] has an MLTensor of ${dataTypes[dataType]}[${shape}]`);
  }
  return arrayOver(heldBy(type), await context.object.readTensor(mlTensor));
}

module.exports = { canBeKept, destroy, download, fits, hold, located, tensorOf, tensorOver };
