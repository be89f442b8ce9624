'use strict';

// The metadata of a session's inputs and outputs, as in onnxruntime-node: a dimension is a size, a name of the file, or '' without a name.

/**
 * @typedef {object} Described
 * @property {string} name
 * @property {string} type
 * @property {(number | string)[]} [shape] nothing where the rank is open
 * @property {object} metadata
 */

/** @returns {Described} */
function described({ name, type, shape, sequence, optional, buffer }) {
  if (sequence || (optional && buffer === undefined)) return { name, type, shape: undefined, metadata: { name, isTensor: false } };
  const dimensions = shape?.map((size, axis) => (size === null || size === `${name}:${axis}` ? '' : size));
  return { name, type, shape: dimensions, metadata: { name, isTensor: true, type, shape: dimensions ?? [] } };
}

/** @param {import('../onnx/model.js').Model} model */
function metadataOf({ inputs, outputs, oneGraph }) {
  const exact = oneGraph?.outputs ?? outputs;
  return { inputs: inputs.map(described), outputs: exact.map(described) };
}

module.exports = { metadataOf };
