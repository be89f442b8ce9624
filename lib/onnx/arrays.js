'use strict';

// Typed arrays for tensors of a model.

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { show, viewName, withArticle } = require('../show.js');

const ARRAYS = {
  float32: Float32Array,
  float16: globalThis.Float16Array ?? Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  // Two elements share a byte.
  int4: Uint8Array,
  uint4: Uint8Array,
};

/** Other arrays that are taken as inputs. */
const ALSO = { float16: ['Uint16Array'], uint8: ['Uint8ClampedArray'], int4: ['Int8Array'] };

function elementCount(shape) {
  let count = 1;
  for (const size of shape) count *= size;
  return count;
}

/** The length of an array for so many elements. */
function lengthFor(dataType, count) {
  return dataType.endsWith('int4') ? Math.ceil(count / 2) : count;
}

/** The typed array over a tensor's bytes, or over a part of a buffer. */
function arrayOver(dataType, buffer, offset = 0, length = undefined) {
  return new ARRAYS[dataType](buffer, offset, length);
}

/** Bytes, so that arrays which only we take pass the check of writeTensor(). */
function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** Checks that something is an array for a data type. */
function requireType(operator, label, place, dataType, value) {
  const wanted = ARRAYS[dataType].name;
  if (!types.isTypedArray(value)) throw typeError(operator, label, `${place}: found ${show(value)}, allowed ${withArticle(wanted)}`);
  const found = viewName(value);
  if (found !== wanted && !ALSO[dataType]?.includes(found)) {
    throw typeError(operator, label, `${place}: found ${withArticle(found)}, allowed ${withArticle(wanted)} for ${dataType}`);
  }
}

/** Checks that something is an array for a tensor. */
function requireArray(operator, label, place, dataType, shape, value) {
  requireType(operator, label, place, dataType, value);
  const length = lengthFor(dataType, elementCount(shape));
  if (value.length !== length) {
    throw typeError(operator, label, `${place}: found ${value.length} elements, allowed ${length} for the shape [${shape.join(', ')}]`);
  }
}

module.exports = { ARRAYS, arrayOver, bytesOf, elementCount, lengthFor, requireArray, requireType };
