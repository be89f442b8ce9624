'use strict';

// Numbers from a seed (mulberry32), which WEBNN_SEED sets.

const { generator: numbers, halfValue } = require('../../lib/command-line/numbers.js');

const seed = Number(process.env.WEBNN_SEED ?? 1);

const generator = (offset) => numbers(seed * 0x9e3779b1 + offset * 0x85ebca6b);

/** The bits of a float16 that is nearest to a number of a harmless size. */
function halfBits(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  // Of a subnormal number the bits count multiples of the smallest.
  if (exponent <= 0) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

module.exports = { generator, halfBits, halfValue, seed };
