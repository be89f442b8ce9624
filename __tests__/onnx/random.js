'use strict';

// Numbers from a seed (mulberry32), which WEBNN_SEED sets.

const seed = Number(process.env.WEBNN_SEED ?? 1);

function generator(offset) {
  let state = (seed * 0x9e3779b1 + offset * 0x85ebca6b) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The bits of a float16 that is nearest to a number of a harmless size. */
function halfBits(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  // Of a subnormal number the bits count multiples of the smallest.
  if (exponent <= 0) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

function halfValue(bits) {
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

module.exports = { generator, halfBits, halfValue, seed };
