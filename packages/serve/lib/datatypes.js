'use strict';

// The data types of the Open Inference Protocol, and how they are converted to and from what a model takes.
//
// Three forms of elements: the protocol's bytes as a typed array (`wire`), the array that the model takes, and the numbers of JSON.

const { bfloat16OfNumber, float16OfNumber, narrowToBfloat16, numberOfBfloat16, numberOfFloat16, widenBfloat16 } = require('./half.js');

/**
 * @typedef {object} Datatype
 * @property {string} name
 * @property {any} Wire the class of typed arrays with its bytes
 * @property {(value: unknown) => number | bigint | undefined} read an element from JSON; undefined for what is none
 * @property {(wire: any) => string} print elements as JSON, without brackets
 */

const integer = (least, most) => (value) => (Number.isInteger(value) && value >= least && value <= most ? value : undefined);

/** 64 bits are more than a number holds: the digits come as a string then. */
function long(least, most) {
  return (value) => {
    if (!Number.isSafeInteger(value) && !(typeof value === 'string' && /^-?\d{1,20}$/.test(value))) return undefined;
    const found = BigInt(value);
    return found >= least && found <= most ? found : undefined;
  };
}

/** JSON has no other numbers than finite ones. */
const finite = (text) => (/[IN]/.test(text) ? text.replace(/-?Infinity|NaN/g, 'null') : text);
const join = (wire) => wire.join();
const float = (value) => (typeof value === 'number' ? value : value === null ? NaN : undefined);
const through = (convert) => (value) => {
  const number = float(value);
  return number === undefined ? undefined : convert(number);
};
const halves = (convert) => (wire) => finite(Array.from(wire, convert).join());

/** @type {Record<string, Datatype>} */
const datatypes = {
  BOOL: {
    name: 'BOOL',
    Wire: Uint8Array,
    read: (value) => (value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : undefined),
    print: (wire) => Array.from(wire, (one) => one !== 0).join(),
  },
  UINT8: { name: 'UINT8', Wire: Uint8Array, read: integer(0, 2 ** 8 - 1), print: join },
  UINT16: { name: 'UINT16', Wire: Uint16Array, read: integer(0, 2 ** 16 - 1), print: join },
  UINT32: { name: 'UINT32', Wire: Uint32Array, read: integer(0, 2 ** 32 - 1), print: join },
  UINT64: { name: 'UINT64', Wire: BigUint64Array, read: long(0n, 2n ** 64n - 1n), print: join },
  INT8: { name: 'INT8', Wire: Int8Array, read: integer(-(2 ** 7), 2 ** 7 - 1), print: join },
  INT16: { name: 'INT16', Wire: Int16Array, read: integer(-(2 ** 15), 2 ** 15 - 1), print: join },
  INT32: { name: 'INT32', Wire: Int32Array, read: integer(-(2 ** 31), 2 ** 31 - 1), print: join },
  INT64: { name: 'INT64', Wire: BigInt64Array, read: long(-(2n ** 63n), 2n ** 63n - 1n), print: join },
  FP16: { name: 'FP16', Wire: Uint16Array, read: through(float16OfNumber), print: halves(numberOfFloat16) },
  BF16: { name: 'BF16', Wire: Uint16Array, read: through(bfloat16OfNumber), print: halves(numberOfBfloat16) },
  FP32: { name: 'FP32', Wire: Float32Array, read: float, print: (wire) => finite(wire.join()) },
  FP64: { name: 'FP64', Wire: Float64Array, read: float, print: (wire) => finite(wire.join()) },
};

/**
 * How the elements of a type of a model go over the wire.
 * @typedef {object} Codec
 * @property {Datatype | undefined} datatype undefined for strings
 * @property {(wire: any) => any} toModel undefined for elements out of range
 * @property {(array: any) => any} fromModel
 */

const same = (array) => array;
const within = (least, most) => (wire) => (wire.every((one) => one >= least && one <= most) ? new Int32Array(wire) : undefined);
const bits16 = (array) => new Uint16Array(array.buffer, array.byteOffset, array.length);

/** By the types of ONNX, as webnn-node names them. @type {Record<string, Codec>} */
const codecs = {
  bool: { datatype: datatypes.BOOL, toModel: (wire) => wire.map((one) => (one === 0 ? 0 : 1)), fromModel: same },
  uint8: { datatype: datatypes.UINT8, toModel: same, fromModel: same },
  // webnn-node has int32 for integers of 16 bits, float32 for doubles and bfloat16.
  uint16: { datatype: datatypes.UINT16, toModel: (wire) => new Int32Array(wire), fromModel: (array) => new Uint16Array(array) },
  uint32: { datatype: datatypes.UINT32, toModel: same, fromModel: same },
  uint64: { datatype: datatypes.UINT64, toModel: same, fromModel: same },
  int8: { datatype: datatypes.INT8, toModel: same, fromModel: same },
  int16: { datatype: datatypes.INT16, toModel: (wire) => new Int32Array(wire), fromModel: (array) => new Int16Array(array) },
  int32: { datatype: datatypes.INT32, toModel: same, fromModel: same },
  int64: { datatype: datatypes.INT64, toModel: same, fromModel: same },
  // The protocol has no integers of 4 bits.
  uint4: { datatype: datatypes.UINT8, toModel: within(0, 15), fromModel: (array) => new Uint8Array(array) },
  int4: { datatype: datatypes.INT8, toModel: within(-8, 7), fromModel: (array) => new Int8Array(array) },
  float16: { datatype: datatypes.FP16, toModel: same, fromModel: bits16 },
  bfloat16: { datatype: datatypes.BF16, toModel: widenBfloat16, fromModel: narrowToBfloat16 },
  float32: { datatype: datatypes.FP32, toModel: same, fromModel: same },
  float64: { datatype: datatypes.FP64, toModel: (wire) => new Float32Array(wire), fromModel: (array) => new Float64Array(array) },
};

/**
 * How the elements of an input or output go over the wire.
 * @param {{ type: string | null, dataType: string | null }} signature
 * @returns {Codec | undefined} nothing for strings, and for an output that the file does not declare
 */
const codecOf = ({ type, dataType }) => codecs[type ?? dataType];

module.exports = { codecOf, datatypes };
