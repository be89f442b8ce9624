'use strict';

// Sets of characters: ranges of code points that are in order, and do not touch.

/** @typedef {[number, number][]} Ranges */

const LAST = 0x10ffff;
const SURROGATES = [0xd800, 0xdfff];
/** @type {Ranges} */
const ALL = [[0, LAST]];

/** @param {Ranges} ranges in any order @returns {Ranges} */
function setOf(ranges) {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  /** @type {Ranges} */
  const set = [];
  for (const [first, last] of sorted) {
    const before = set.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else set.push([first, last]);
  }
  return set;
}

/** @param {Ranges} set @returns {Ranges} */
function complement(set, most = LAST) {
  /** @type {Ranges} */
  const others = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) others.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= most) others.push([next, most]);
  return others;
}

/** @param {Ranges[]} sets @returns {Ranges} */
const union = (...sets) => setOf(sets.flat());

/** @param {Ranges} set @param {Ranges} other @returns {Ranges} */
const without = (set, other) => complement(union(complement(set), other));

/** How much of the surrogates a set has. @param {Ranges} set @returns {'all' | 'none' | 'some'} */
function surrogatesIn(set) {
  const [least, most] = SURROGATES;
  const common = set.filter(([first, last]) => first <= most && last >= least);
  if (common.length === 0) return 'none';
  return common.some(([first, last]) => first <= least && last >= most) ? 'all' : 'some';
}

module.exports = { ALL, LAST, SURROGATES, complement, setOf, surrogatesIn, union, without };
