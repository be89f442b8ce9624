'use strict';

// MLOperandDescriptor, MLTensorDescriptor, and how data types look in memory.

const native = require('./native.js');
const { boolean, dictionary, enforcedUnsignedLong, enumeration, sequence, usvString } = require('./webidl.js');

// Uint8Array is a slice of bytes for every type ("validate buffer with descriptor"). float16 takes Uint16Array for
// runtimes without Float16Array (the note to the compatibility table). int4 and uint4 are this module's extension: two
// elements share a byte.
const LAYOUT = {
  float32: { bits: 32, views: ['Float32Array', 'Uint8Array'] },
  float16: { bits: 16, views: ['Float16Array', 'Uint16Array', 'Uint8Array'] },
  int32: { bits: 32, views: ['Int32Array', 'Uint8Array'] },
  uint32: { bits: 32, views: ['Uint32Array', 'Uint8Array'] },
  int64: { bits: 64, views: ['BigInt64Array', 'Uint8Array'] },
  uint64: { bits: 64, views: ['BigUint64Array', 'Uint8Array'] },
  int8: { bits: 8, views: ['Int8Array', 'Uint8Array'] },
  uint8: { bits: 8, views: ['Uint8Array'] },
  int4: { bits: 4, views: ['Int8Array', 'Uint8Array'] },
  uint4: { bits: 4, views: ['Uint8Array', 'Int8Array'] },
};

/** Names in the order of the numbers that the native side uses. @type {readonly string[]} */
const dataTypes = native.dataTypes();

const layouts = dataTypes.map((name) => LAYOUT[name]);

/** MLOperandDataType; converts to the type's number. */
const dataType = enumeration(dataTypes);

const operandDescriptorMembers = [
  { name: 'dataType', convert: dataType, required: true },
  { name: 'shape', convert: sequence(enforcedUnsignedLong), required: true },
];

const label = { name: 'label', convert: usvString, absent: '' };

const operandDescriptor = dictionary(operandDescriptorMembers);

// The label is an extension (docs/extensions.md E1); in createConstantTensor() it makes a dictionary that inherits from
// MLOperandDescriptor, so that it is read after the specified members.
const constantTensorDescriptor = dictionary(operandDescriptorMembers, [label]);

// exportableToGPU and importableToWebGPU are of earlier texts of the interop with WebGPU (docs/extensions.md F2).
const tensorDescriptor = dictionary(operandDescriptorMembers, [
  { name: 'exportableToGPU', convert: boolean, absent: false },
  { name: 'importableToWebGPU', convert: boolean, absent: false },
  label,
  { name: 'readable', convert: boolean, absent: false },
  { name: 'writable', convert: boolean, absent: false },
]);

/** `float32[2,3]` */
function describe(type, shape) {
  return `${dataTypes[type]}[${shape.join(',')}]`;
}

/** What a buffer has to be for a data type and a shape, for validateBuffer(). */
function bufferFor(type, shape) {
  const { bits, views } = layouts[type];
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
  return { byteLength: Math.ceil((elements * bits) / 8), views, text: describe(type, shape) };
}

module.exports = { bufferFor, constantTensorDescriptor, dataType, dataTypes, describe, operandDescriptor, tensorDescriptor };
