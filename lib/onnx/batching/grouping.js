'use strict';

// Which of the waiting requests of a family run together.

const { isWorthFilling } = require('../lengths.js');

/** @typedef {import('./requests.js').Waiting} Waiting */
/** @typedef {import('./families.js').Family} Family */
/** @typedef {import('./row-layout.js').RowLayout} RowLayout */

/**
 * Takes requests in their order, as many as fit; of texts those first whose lengths are nearest to that of the first one. Each number of rows
 * needs a plan, so powers of two are preferred.
 * @param {Family} family
 * @param {RowLayout} layout
 * @param {{maxSize: number, maxElements: number}} limits
 * @returns {Waiting[]}
 */
function takeGroup(family, layout, { maxSize, maxElements }) {
  const [first] = family.waiting;
  const group = [first];
  // The lengths between which those of the group are, its rows, and its places.
  let [shortest, longest, rows, places, best] = [first.length, first.length, first.rows, first.rows * first.length, 0];
  for (const waiting of nearest(family)) {
    const [from, to, all] = [Math.min(shortest, waiting.length), Math.max(longest, waiting.length), rows + waiting.rows];
    const filled = from === to ? to : family.filledFor(to);
    const own = places + waiting.rows * waiting.length;
    if (all > maxSize || !layout.haveSame(first, waiting)) break;
    if (layout.elementsOf(family.one, all, filled) > maxElements) break;
    // Farther ones of the other side may still do.
    if (from !== to && !isWorthFilling(own, all * filled)) continue;
    group.push(waiting);
    [shortest, longest, rows, places] = [from, to, all, own];
    if (rows === maxSize || (rows & (rows - 1)) === 0) best = group.length;
  }
  return family.take(group.slice(0, best || group.length));
}

/** The others that wait, of texts the nearest lengths first. */
function nearest({ waiting, unfit }) {
  const [{ length }, ...others] = waiting;
  if (others.every((other) => other.length === length)) return others;
  const distance = (other) => Math.abs(other.length - length);
  // What is not proved to fit, and a text of no length, goes with its own only.
  const fits = (other) => other.length === length || ![length, other.length].some((one) => one === 0 || unfit.has(one));
  return others.filter(fits).sort((one, other) => distance(one) - distance(other));
}

module.exports = { takeGroup };
