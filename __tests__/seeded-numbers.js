'use strict';

/**
 * Numbers of mean 0 that look drawn: always the same for a seed.
 * @param {number} count
 * @param {number} scale the distance between the least and the greatest
 * @param {number} seed
 */
function seededNumbers(count, scale, seed) {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * scale;
  });
}

module.exports = { seededNumbers };
