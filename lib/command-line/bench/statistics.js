'use strict';

// What the rounds of a measurement say, and whether two of them differ by more than noise.

const { generator } = require('../numbers.js');

/** Two processes of the same program often differ by this: the layout of memory differs, and the clock of the CPU. */
const SAME = 0.02;
const SAMPLES = 2000;

/** @param {number[]} list in order */
function quantile(list, part) {
  const position = (list.length - 1) * part;
  const below = Math.floor(position);
  const above = Math.min(below + 1, list.length - 1);
  return list[below] + (list[above] - list[below]) * (position - below);
}

/** @param {number[]} list */
const inOrder = (list) => Float64Array.from(list).sort();

/** @param {number[]} list */
function median(list) {
  return quantile(/** @type {any} */ (inOrder(list)), 0.5);
}

/**
 * The latencies of all runs, in milliseconds.
 * @param {number[]} list
 */
function latencies(list) {
  const sorted = /** @type {any} */ (inOrder(list));
  return { min: sorted[0], p50: quantile(sorted, 0.5), p90: quantile(sorted, 0.9), p99: quantile(sorted, 0.99), max: sorted[sorted.length - 1] };
}

/**
 * By what a measurement is faster than another: the ratio of the medians of their rounds, and its 95 % confidence interval by a bootstrap.
 * @param {number[]} rounds runs in a second
 * @param {number[]} others
 */
function compareRounds(rounds, others) {
  // The seed is fixed: the same files give the same verdict.
  const random = generator(1);
  const drawn = (list) => median(list.map(() => list[Math.floor(random() * list.length)]));
  const ratios = /** @type {any} */ (inOrder(Array.from({ length: SAMPLES }, () => drawn(rounds) / drawn(others))));
  const [low, high] = [quantile(ratios, 0.025), quantile(ratios, 0.975)];
  return { ratio: median(rounds) / median(others), low, high, verdict: verdictOf(Math.min(rounds.length, others.length), low, high) };
}

/** Few rounds tell nothing, since they hardly show how much rounds differ. */
function verdictOf(count, low, high) {
  if (count < 3) return 'too few rounds';
  if (low > 1 + SAME) return 'faster';
  return high < 1 / (1 + SAME) ? 'slower' : 'no difference that can be told from noise';
}

module.exports = { SAME, compareRounds, latencies, median };
