// The rows: lines of a file, or texts that are made up.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

const WORDS = 'river mountain city street house dog cat bird fish horse tree flower car train ship plane book paper letter word king queen winter summer music'.split(' ');

/** Numbers from 0 to below 1, the same for the same seed. */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Texts of 3 to 18 words, the same each time. */
export function* madeUp(count) {
  const random = randomFrom(1);
  const word = () => WORDS[Math.floor(random() * WORDS.length)];
  for (let i = 0; i < count; i++) yield Array.from({ length: 3 + Math.floor(random() * 16) }, word).join(' ');
}

export const linesOf = (file) => createInterface({ input: createReadStream(file), crlfDelay: Infinity });
