'use strict';

// Elements of every data type, between numbers and bytes.

/** The typed array that a user of a data type has. int4 and uint4 share bytes, and float16 is its bit pattern. */
const ARRAYS = {
  float32: Float32Array,
  float16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int4: Uint8Array,
  uint4: Uint8Array,
};

/** How many elements a shape has. */
function count(shape) {
  return shape.reduce((product, size) => product * size, 1);
}

/** A number, or the string that stands for one that JSON cannot carry; of a 64-bit integer the string is a bigint. */
function number(json) {
  if (typeof json === 'number') return json;
  if (/^-?\d+$/.test(json) && json !== '-0') return BigInt(json);
  return Number(json);
}

/** @returns whether `json` is one of those strings */
function isNumber(json) {
  return typeof json === 'string' && /^(NaN|-?Infinity|-?\d+)$/.test(json);
}

/**
 * The contents of a tensor, as a user would have them.
 * @param {{dataType: string, shape: number[]}} descriptor
 * @param {unknown} data a list, or one number that fills the shape
 */
function encode({ dataType, shape }, data) {
  const length = count(shape);
  const at = Array.isArray(data) ? (i) => number(data[i]) : constant(number(data));
  const bits = converter(dataType);
  if (dataType === 'int4' || dataType === 'uint4') {
    const bytes = new Uint8Array(Math.ceil(length / 2));
    // The earlier element is in the low four bits.
    for (let i = 0; i < length; i++) bytes[i >> 1] |= bits(at(i)) << (4 * (i & 1));
    return bytes;
  }
  const array = new ARRAYS[dataType](length);
  for (let i = 0; i < length; i++) array[i] = bits(at(i));
  return array;
}

function constant(value) {
  return () => value;
}

/** From a number to what the typed array stores. */
function converter(dataType) {
  switch (dataType) {
    case 'float16':
      return (value) => float16Bits(Number(value));
    case 'int64':
    case 'uint64':
      return BigInt;
    case 'int4':
    case 'uint4':
      // Some elements are out of range; as in a typed array, their lowest bits count.
      return (value) => Number(value) & 15;
    default:
      return Number;
  }
}

/**
 * The stored elements of a tensor: bit patterns of float16, and bigints of 64-bit integers.
 * @param {string} dataType
 * @param {ArrayBuffer} buffer
 * @param {number} length
 */
function decode(dataType, buffer, length) {
  const array = new ARRAYS[dataType](buffer);
  if (dataType !== 'int4' && dataType !== 'uint4') return array;
  return Array.from({ length }, (_, i) => {
    const half = (array[i >> 1] >> (4 * (i & 1))) & 15;
    return dataType === 'int4' && half > 7 ? half - 16 : half;
  });
}

/** The bits of the nearest float16, ties to even. */
function float16Bits(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  // Halfway between the greatest number and what would be the next one.
  if (magnitude >= 65520) return sign | 0x7c00;
  // Below 2^-14 the exponent stays and the numbers have equal distances.
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  const significand = roundEven(magnitude / 2 ** (exponent - 10));
  // A significand that was rounded up to 2048 carries into the exponent, as it should.
  return sign | (((exponent + 14) << 10) + significand);
}

/** Exact for what float16Bits() hands it: `value` is an integer scaled by a power of two. */
function roundEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** The value of a float16. */
function float16Value(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

module.exports = { count, decode, encode, float16Bits, float16Value, isNumber, number };
