'use strict';

// How far a computed element is from the expected one.

const { float16Value } = require('./elements.js');

const float = new Float32Array(1);
const floatBits = new Int32Array(float.buffer);

/** Distances by metric and data type; everything that has no entry is an integer. */
const METRICS = {
  ATOL: {
    float32: difference,
    float16: (a, b) => difference(float16Value(a), float16Value(b)),
  },
  ULP: {
    float32: (a, b) => difference(position(a), position(b)),
    float16: float16Steps,
  },
};

/**
 * @param {'ATOL' | 'ULP'} metric
 * @param {string} dataType
 * @returns {(found: number | bigint, expected: number | bigint) => number} NaN where the two cannot be compared
 */
function distance(metric, dataType) {
  const metrics = METRICS[metric];
  if (metrics === undefined) throw new Error(`the metric ${metric} is unknown`);
  const measure = metrics[dataType] ?? difference;
  return (found, expected) => measure(found, expected);
}

function difference(a, b) {
  // Infinities are 0 away from themselves, and NaN is NaN.
  if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return 0;
  // Of bigints too: the difference is small or far too large, and either survives as a number.
  return Math.abs(Number(a - b));
}

/** The place of a float32 in the order of all float32 numbers; both zeros have the same. */
function position(value) {
  float[0] = value;
  if (Number.isNaN(value)) return NaN;
  const magnitude = floatBits[0] & 0x7fffffff;
  return floatBits[0] < 0 ? -magnitude : magnitude;
}

/** The difference of the bit patterns, so that a wrong sign is far away. */
function float16Steps(a, b) {
  const isNaN = (bits) => (bits & 0x7fff) > 0x7c00;
  if (isNaN(a) || isNaN(b)) return isNaN(a) && isNaN(b) ? 0 : NaN;
  const isZero = (bits) => (bits & 0x7fff) === 0;
  if (isZero(a) && isZero(b)) return 0;
  return Math.abs(a - b);
}

module.exports = { distance };
