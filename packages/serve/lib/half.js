'use strict';

// float16 and bfloat16 as numbers, for JSON and for models that compute in float32. Rounded to nearest, ties to even.

const floats = new Float32Array(1);
const bits = new Uint32Array(floats.buffer);

/** @param {number} half the bits of a float16 */
function numberOfFloat16(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** @param {number} number @returns the bits of a float16 */
function float16OfNumber(number) {
  if (Number.isNaN(number)) return 0x7e00;
  const sign = number < 0 || Object.is(number, -0) ? 0x8000 : 0;
  const size = Math.abs(number);
  // 65520 is halfway to the number that is too large.
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.min(15, Math.floor(Math.log2(size || 2 ** -30))));
  const steps = roundToEven(size * 2 ** (10 - exponent));
  // A carry goes into the exponent, as it should. Subnormal numbers have no hidden bit.
  return sign | (steps < 1024 ? steps : steps + ((exponent + 14) << 10));
}

function roundToEven(number) {
  const floor = Math.floor(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

/** @param {Uint16Array} halves the bits of bfloat16 @returns {Float32Array} */
function widenBfloat16(halves) {
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) words[i] = halves[i] << 16;
  return new Float32Array(words.buffer);
}

/** @param {Float32Array} numbers @returns {Uint16Array} the bits of bfloat16 */
function narrowToBfloat16(numbers) {
  const words = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const halves = new Uint16Array(numbers.length);
  for (let i = 0; i < halves.length; i++) halves[i] = narrow(words[i]);
  return halves;
}

function narrow(word) {
  // The lowest bits of a NaN may be all that tells it from infinity.
  if ((word & 0x7fffffff) > 0x7f800000) return (word >>> 16) | 0x40;
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}

function bfloat16OfNumber(number) {
  floats[0] = number;
  return narrow(bits[0]);
}

function numberOfBfloat16(half) {
  bits[0] = half << 16;
  return floats[0];
}

module.exports = { bfloat16OfNumber, float16OfNumber, narrowToBfloat16, numberOfBfloat16, numberOfFloat16, widenBfloat16 };
