'use strict';

// Tensors of onnxruntime-common whose elements nobody has looked at. Their location is 'cpu', and `data` is read when somebody asks for it.

const { arrayFor, ELEMENTS, heldBy } = require('./elements.js');
const { elementCount } = require('../onnx/arrays.js');
const { lookLater } = require('../onnx/kept.js');
const { Tensor } = require('./common.js');

/** Whether this version of the package has what a tensor is made of in these properties. */
const isKnown = (() => {
  const tensor = new Tensor('float32', new Float32Array(1), [1]);
  return tensor.location === 'cpu' && ['cpuData', 'dims', 'size'].every((name) => Object.getOwnPropertyDescriptor(tensor, name)?.writable);
})();

/** Whether a tensor of a type can be one whose elements are as the native side has them. */
const canKeep = (type) => isKnown && ELEMENTS[type].from === undefined;

/** @param {import('../onnx/kept.js').Kept} kept which is the tensor's from now on */
function tensorOfKept(type, kept) {
  const tensor = new Tensor(type, arrayFor(heldBy(type), 0), [0]);
  tensor.dims = [...kept.shape];
  tensor.size = elementCount(kept.shape);
  lookLater(tensor, 'cpuData', kept);
  return tensor;
}

module.exports = { canKeep, tensorOfKept };
