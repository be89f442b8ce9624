'use strict';

// OnnxTensor: elements with a shape, a value that a model takes or returns.

const { dataTypes } = require('../descriptor.js');
const { show } = require('../show.js');
const { requireArray } = require('./arrays.js');

class OnnxTensor {
  /**
   * @param {string} dataType
   * @param {ArrayBufferView} data
   * @param {readonly number[]} shape
   */
  constructor(dataType, data, shape) {
    if (!dataTypes.includes(dataType)) throw new TypeError(`OnnxTensor: dataType: found ${show(dataType)}, allowed ${dataTypes.join(', ')}`);
    if (!isShape(shape)) throw new TypeError(`OnnxTensor: shape: found ${show(shape)}, allowed an array of sizes`);
    requireArray('OnnxTensor', '', 'data', dataType, shape, data);
    this.dataType = dataType;
    this.data = data;
    this.shape = [...shape];
  }

  /** The shape, as onnxruntime names it. */
  get dims() {
    return this.shape;
  }

  /** The data type, as onnxruntime names it. */
  get type() {
    return this.dataType;
  }
}

/** Whether something is a list of sizes. */
function isShape(value) {
  return Array.isArray(value) && value.every((size) => Number.isInteger(size) && size >= 0 && size < 2 ** 32);
}

/** Without checks, for results. */
function resultTensor(dataType, data, shape) {
  const tensor = Object.create(OnnxTensor.prototype);
  tensor.dataType = dataType;
  tensor.data = data;
  tensor.shape = shape;
  return tensor;
}

module.exports = { OnnxTensor, isShape, resultTensor };
