'use strict';

// Numbers that look random and are the same for the same seed.

/** The seed of this run: WEBNN_SEED, or one that is printed. */
function chooseSeed() {
  const seed = process.env.WEBNN_SEED === undefined ? Date.now() % 2 ** 31 : Number(process.env.WEBNN_SEED);
  console.info(`seed ${seed} (WEBNN_SEED)`);
  return seed;
}

/** mulberry32: a function from a bound to an integer below it. */
function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

module.exports = { chooseSeed, generator };
