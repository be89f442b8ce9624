'use strict';

// What the conformance cases are compared with has to be right itself.

const { distance } = require('./distance.js');
const { decode, encode, float16Bits, float16Value } = require('./elements.js');

const FLOAT16 = Array.from({ length: 0x7c01 }, (_, bits) => bits);

// Collected and not expected one by one, which would take seconds.
const wrong = (test) => FLOAT16.filter((bits) => !test(bits));

test('every float16 survives the way to a number and back', () => {
  expect(wrong((bits) => float16Bits(float16Value(bits)) === bits)).toEqual([]);
  expect(wrong((bits) => float16Bits(float16Value(bits | 0x8000)) === (bits | 0x8000))).toEqual([]);
  expect(float16Value(0x7e00)).toBeNaN();
  expect(float16Bits(NaN)).toBe(0x7e00);
});

test('what lies halfway between two float16 becomes the even one, and everything else the nearest', () => {
  const rounds = (bits) => {
    if (bits >= 0x7bff) return true; // There is no number above the greatest one.
    const [lower, upper] = [float16Value(bits), float16Value(bits + 1)];
    const half = (lower + upper) / 2;
    return (
      float16Bits(half) === (bits % 2 === 0 ? bits : bits + 1) &&
      float16Bits((lower + half) / 2) === bits &&
      float16Bits((half + upper) / 2) === bits + 1
    );
  };
  expect(wrong(rounds)).toEqual([]);
  expect(float16Bits(65519.99)).toBe(0x7bff);
  expect(float16Bits(65520)).toBe(0x7c00);
});

test.each(['int4', 'uint4'])('%s packs two elements into a byte, the earlier one low', (dataType) => {
  const descriptor = { dataType, shape: [3] };
  const data = dataType === 'int4' ? [-8, 7, -1] : [8, 7, 15];
  const bytes = encode(descriptor, data);
  expect([...bytes]).toEqual([0x78, 0x0f]);
  expect(decode(dataType, bytes.buffer, 3)).toEqual(data);
});

test('64-bit integers keep all bits', () => {
  const descriptor = { dataType: 'uint64', shape: [2] };
  expect([...encode(descriptor, ['18446744073709551615', 1])]).toEqual([18446744073709551615n, 1n]);
});

test.each([
  ['float32', 1, 1 + 2 ** -23, 1],
  ['float32', 0, -0, 0],
  ['float32', NaN, NaN, 0],
  ['float32', NaN, 1, NaN],
  ['float32', Infinity, Infinity, 0],
  ['float32', 2 ** -149, -(2 ** -149), 2],
  ['float16', 0x3c00, 0x3c02, 2],
  ['float16', 0x0000, 0x8000, 0],
  ['float16', 0x0001, 0x8001, 0x8000],
  ['float16', 0x7e00, 0xfe01, 0],
  ['float16', 0x7e00, 0x3c00, NaN],
  ['int64', 2n ** 62n, 2n ** 62n + 1n, 1],
  ['int8', -3, 4, 7],
])('of %s %p and %p the distance in ULP is %p', (dataType, found, expected, steps) => {
  expect(distance('ULP', dataType)(found, expected)).toBe(steps);
});
