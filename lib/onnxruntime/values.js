'use strict';

// Reads the tensors that a program feeds and fetches. They may be of any copy and version of onnxruntime-common, so their members identify them.
// Errors have onnxruntime-node's words.

const { types } = require('node:util');
const { toTensor } = require('../tensor.js');
const { viewName } = require('../show.js');
const { elementCount, lengthFor } = require('../onnx/arrays.js');
const { unreadOf } = require('../onnx/unread.js');
const { isGPUBuffer } = require('../webgpu/device.js');
const { ELEMENTS, heldBy } = require('./elements.js');
const { printed } = require('./errors.js');
const { isObject } = require('./session-options.js');

/**
 * @typedef {object} Value
 * @property {string} type
 * @property {number[]} dims
 * @property {ArrayBufferView} [data]
 * @property {object} [unread] if the elements were not read
 * @property {object} [mlTensor] where it is on a device
 * @property {GPUBuffer} [gpuBuffer] where it is one of WebGPU's
 */

const LOCATIONS = ['cpu', 'cpu-pinned', 'texture', 'gpu-buffer', 'ml-tensor'];
/** Those of tensors whose elements may be kept on the native side. */
const WITH_ELEMENTS = ['cpu', 'ml-tensor', 'gpu-buffer'];

const ADVICE = 'Please fix either the inputs/outputs or the model.';

/**
 * Reads a tensor.
 * @param {any} tensor
 * @returns {Value}
 */
function readValue(tensor) {
  if (!isObject(tensor)) throw new TypeError('Tensor must be an object.');
  const { dims: given, location, type } = tensor;
  const dims = dimsOf(given);
  if (typeof location !== 'string') throw new TypeError('Tensor.location must be a string.');
  if (!LOCATIONS.includes(location)) throw new RangeError('Tensor.location is not supported.');
  const element = elementOf(type);
  const unread = WITH_ELEMENTS.includes(location) ? unreadOf(tensor, dims) : undefined;
  if (unread !== undefined && unread.dataType === heldBy(type)) return { type, dims, unread };
  if (location === 'cpu') return { type, dims, data: arrayOf(type, dims, element, tensor.data) };
  if (location === 'ml-tensor') return { type, dims, mlTensor: onDevice('mlTensor', tensor.mlTensor) };
  if (location === 'gpu-buffer') {
    const { gpuBuffer } = tensor;
    return isGPUBuffer(gpuBuffer) ? { type, dims, gpuBuffer } : { type, dims, mlTensor: onDevice('gpuBuffer', gpuBuffer) };
  }
  throw new TypeError("Tensor.location must be 'gpu-buffer' for IO binding.");
}

/** A copy of the dimensions. */
function dimsOf(given) {
  if (!Array.isArray(given)) throw new TypeError('Tensor.dims must be an array.');
  const dims = new Array(given.length);
  for (let axis = 0; axis < dims.length; axis++) dims[axis] = sizeOf(given[axis], axis);
  return dims;
}

function elementOf(type) {
  if (typeof type !== 'string') throw new TypeError('Tensor.type must be a string.');
  if (type === 'string') throw new TypeError('Tensor.type is not supported: string, since models with strings are not run by webnn-node');
  if (!Object.hasOwn(ELEMENTS, type)) throw new TypeError(`Tensor.type is not supported: ${type}`);
  return ELEMENTS[type];
}

function sizeOf(size, axis) {
  if (typeof size !== 'number') throw new TypeError(`Tensor.dims[${axis}] is not a number.`);
  if (!Number.isInteger(size) || size < 0 || size > 0xffffffff) throw new RangeError(`Tensor.dims[${axis}] is invalid: ${printed(size)}`);
  return size;
}

function arrayOf(type, dims, { arrays }, data) {
  if (!types.isTypedArray(data)) throw new TypeError('Tensor.data must be a typed array for numeric tensor.');
  const found = viewName(data);
  if (!arrays.includes(found)) {
    throw new TypeError(`Tensor.data must be a typed array (${arrays.join(' or ')}) for ${type} tensors, but got typed array (${found}).`);
  }
  const length = lengthFor(type, elementCount(dims));
  if (data.length < length) {
    const { BYTES_PER_ELEMENT: bytes } = data;
    throw new Error(`not enough space: expected ${length * bytes}, got ${data.length * bytes}`);
  }
  // Elements beyond the dimensions are ignored.
  return data.length === length ? data : data.subarray(0, length);
}

function onDevice(member, value) {
  try {
    return toTensor(value).object;
  } catch (cause) {
    throw new TypeError(`Tensor.${member} must be an MLTensor of webnn-node.`, { cause });
  }
}

/**
 * Holds values against what the model declares.
 * @param {'input' | 'output'} kind
 * @param {{name: string, type: string, shape?: (number | string)[]}} declared
 * @param {Value} value
 */
function checkValue(kind, { name, type, shape }, value) {
  // Of an output that the model makes of others the file need not say the type.
  if (typeof type === 'string' && value.type !== type) {
    const text = (of) => `(tensor(${ELEMENTS[of]?.onnx ?? of}))`;
    throw new Error(`Unexpected ${kind} data type. Actual: ${text(value.type)} , expected: ${text(type)}`);
  }
  // A declared `[]` says nothing there: exporters write it for what they do not know.
  if (shape === undefined || shape.length === 0) return;
  const { dims } = value;
  if (dims.length !== shape.length) {
    throw new Error(`Invalid rank for ${kind}: ${name} Got: ${dims.length} Expected: ${shape.length} ${ADVICE}`);
  }
  let wrong = '';
  for (let axis = 0; axis < shape.length; axis++) {
    const size = shape[axis];
    if (typeof size === 'number' && size !== dims[axis]) wrong += ` index: ${axis} Got: ${dims[axis]} Expected: ${size}\n`;
  }
  if (wrong !== '') throw new Error(`Got invalid dimensions for ${kind}: ${name} for the following indices\n${wrong} ${ADVICE}`);
}

module.exports = { checkValue, readValue };
