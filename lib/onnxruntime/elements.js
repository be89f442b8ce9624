'use strict';

// The element types of tensors: their names here and in ONNX, their arrays, and the types of graphs that hold them.

const { ARRAYS } = require('../onnx/arrays.js');

/**
 * @typedef {object} Element
 * @property {string} onnx as messages name it
 * @property {string[]} arrays the classes that are taken
 * @property {(array: any, count: number) => any} [into] for types that graphs do not have: the elements as they have them
 * @property {(array: any) => any} [from] and back
 */

/** A type of which graphs have a wider or narrower one: every element is converted. */
const converted = (Theirs, Ours) => ({ into: (array) => Ours.from(array), from: (array) => Theirs.from(array) });

/** Two integers of 4 bits share a byte, the first in its low half. */
const packed = (isSigned) => ({
  into: (bytes, count) => Int32Array.from({ length: count }, (_, i) => {
    const half = (bytes[i >> 1] >> (4 * (i & 1))) & 15;
    return isSigned ? (half ^ 8) - 8 : half;
  }),
  from(numbers) {
    const bytes = new Uint8Array(Math.ceil(numbers.length / 2));
    numbers.forEach((number, i) => (bytes[i >> 1] |= (number & 15) << (4 * (i & 1))));
    return bytes;
  },
});

/** @type {Record<string, Element>} */
const ELEMENTS = {
  float32: { onnx: 'float', arrays: ['Float32Array'] },
  uint8: { onnx: 'uint8', arrays: ['Uint8Array'] },
  int8: { onnx: 'int8', arrays: ['Int8Array'] },
  uint16: { onnx: 'uint16', arrays: ['Uint16Array'], ...converted(Uint16Array, Int32Array) },
  int16: { onnx: 'int16', arrays: ['Int16Array'], ...converted(Int16Array, Int32Array) },
  int32: { onnx: 'int32', arrays: ['Int32Array'] },
  int64: { onnx: 'int64', arrays: ['BigInt64Array'] },
  bool: { onnx: 'bool', arrays: ['Uint8Array'] },
  float16: { onnx: 'float16', arrays: ['Uint16Array', 'Float16Array'] },
  float64: { onnx: 'double', arrays: ['Float64Array'], ...converted(Float64Array, Float32Array) },
  uint32: { onnx: 'uint32', arrays: ['Uint32Array'] },
  uint64: { onnx: 'uint64', arrays: ['BigUint64Array'] },
  uint4: { onnx: 'uint4', arrays: ['Uint8Array'], ...packed(false) },
  int4: { onnx: 'int4', arrays: ['Uint8Array'], ...packed(true) },
};

/** The type of graphs' operands that hold such elements. */
const HELD = { bool: 'uint8', float64: 'float32', int16: 'int32', uint16: 'int32', int4: 'int32', uint4: 'int32' };

/** @param {string} type */
const heldBy = (type) => HELD[type] ?? type;

/** A new array for so many elements of a graph's operand. */
const arrayFor = (dataType, length) => new ARRAYS[dataType](length);

module.exports = { ELEMENTS, arrayFor, heldBy };
