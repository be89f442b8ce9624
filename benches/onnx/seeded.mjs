// Numbers from a seed.

import { generator as numbers } from '../../lib/command-line/numbers.js';

/** Numbers in -1 to 1. */
export function generator(seed) {
  const random = numbers(seed);
  return () => 2 * random() - 1;
}

/** Whole numbers from one up to a limit. */
export function lengths(limit, seed) {
  const random = generator(seed);
  return () => 1 + Math.floor(((random() + 1) / 2) * limit);
}

/** What adds constants with names of their own, and weights whose products keep the size of what they are multiplied with. */
export function constants(model, seed) {
  const random = generator(seed);
  let count = 0;
  const constant = (shape, data) => model.constant(`c${count++}`, shape, data);
  return {
    constant,
    weight(...shape) {
      const size = shape.reduce((a, b) => a * b, 1);
      const inputs = shape.length === 4 ? shape[1] * shape[2] * shape[3] : shape[0];
      const scale = 1.7 / Math.sqrt(inputs);
      return constant(shape, Float32Array.from({ length: size }, () => random() * scale));
    },
    longs: (...numbers) => constant([numbers.length], BigInt64Array.from(numbers, BigInt)),
    number: (value) => constant([], Float32Array.of(value)),
  };
}
