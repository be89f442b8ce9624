'use strict';

// Which characters a part of a regular expression matches that matches one: those of the syntax are listed here, and V8 is asked for the others
// (properties of Unicode, and cases beyond ASCII), so they are those of JavaScript.

const { LAST, complement, setOf, union } = require('./sets.js');

/**
 * @typedef {import('@eslint-community/regexpp').AST.Node} Node
 * @typedef {import('./sets.js').Ranges} Ranges
 * @typedef {{ i: boolean, m: boolean, s: boolean, u: boolean, v: boolean }} Flags
 */

const of = (/** @type {[number | string, (number | string)?][]} */ ...ranges) => {
  const code = (at) => (typeof at === 'string' ? at.codePointAt(0) : at);
  return setOf(ranges.map(([first, last = first]) => [code(first), code(last)]));
};

const DIGITS = of(['0', '9']);
const WORDS = of(['0', '9'], ['A', 'Z'], ['_'], ['a', 'z']);
const SPACES = of([9, 13], [' '], [0xa0], [0x1680], [0x2000, 0x200a], [0x2028, 0x2029], [0x202f], [0x205f], [0x3000], [0xfeff]);
const LINE_ENDS = of([10], [13], [0x2028, 0x2029]);
const ESCAPED = { digit: DIGITS, space: SPACES, word: WORDS };

const mostOf = (flags) => (flags.u || flags.v ? LAST : 0xffff);

/** Sets that V8 was asked for. @type {Map<string, Ranges>} */
const known = new Map();
const MOST_KNOWN = 256;

/** Characters, or code units, that an expression matches. It takes tens of milliseconds. @returns {Ranges} */
function matching(regex, most) {
  /** @type {Ranges} */
  const set = [];
  for (let code = 0; code <= most; code++) {
    if (!regex.test(String.fromCodePoint(code))) continue;
    const last = set.at(-1);
    if (last !== undefined && last[1] === code - 1) last[1] = code;
    else set.push([code, code]);
  }
  return set;
}

/**
 * What V8 matches by the source of a part.
 * @param {string} source
 * @param {Flags} flags
 * @param {{ left: number }} questions how many may be asked
 * @returns {Ranges | undefined} nothing if there are too many
 */
function asked(source, flags, questions) {
  const letters = ['i', 's', 'u', 'v'].filter((flag) => flags[flag]).join('');
  const key = `${letters} ${source}`;
  let set = known.get(key);
  if (set === undefined) {
    if (questions.left-- <= 0) return undefined;
    set = matching(new RegExp(`^(?:${source})$`, letters), mostOf(flags));
  }
  known.delete(key);
  known.set(key, set);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
  return set;
}

const isLetter = (code) => (code >= 65 && code <= 90) || (code >= 97 && code <= 122);

/** A character of ASCII in both cases. @returns {Ranges} */
function inBothCases(code, flags) {
  if (!isLetter(code)) return of([code]);
  const lower = code | 32;
  const beyond = flags.u || flags.v ? { k: 0x212a, s: 0x17f }[String.fromCharCode(lower)] : undefined;
  return of([lower], [lower - 32], [beyond ?? lower]);
}

/** Characters from one to another; nothing if V8 must be asked for them. @returns {Ranges | undefined} */
function rangeOf(first, last, flags) {
  if (!flags.i) return of([first, last]);
  if (last > 0x7f) return undefined;
  return union(...Array.from({ length: last - first + 1 }, (_, i) => inBothCases(first + i, flags)));
}

/** @param {any} set of the syntax @param {Flags} flags @returns {Ranges | undefined} */
function escapedOf(set, flags) {
  const found = ESCAPED[set.kind];
  if (found === undefined || (flags.i && (flags.u || flags.v) && set.kind === 'word')) return undefined;
  return set.negate ? complement(found, mostOf(flags)) : found;
}

/** @param {any} node @param {Flags} flags @returns {Ranges | undefined} */
function listed(node, flags) {
  switch (node.type) {
    case 'Pair':
      return of([node.value]);
    case 'Character':
      return rangeOf(node.value, node.value, flags);
    case 'CharacterClassRange':
      return rangeOf(node.min.value, node.max.value, flags);
    case 'CharacterSet':
      if (node.kind === 'any') return complement(flags.s ? [] : LINE_ENDS, mostOf(flags));
      return escapedOf(node, flags);
    case 'CharacterClass': {
      const parts = node.elements.map((element) => listed(element, flags));
      if (parts.includes(undefined)) return undefined;
      return node.negate ? complement(union(...parts), mostOf(flags)) : union(...parts);
    }
    default:
      return undefined;
  }
}

/**
 * The characters that a part matches; without the flags u and v, the code units.
 * @param {any} node
 * @param {Flags} flags
 * @param {{ left: number }} questions
 * @returns {Ranges | undefined} nothing if V8 would be asked too many questions
 */
const charactersOf = (node, flags, questions) => listed(node, flags) ?? asked(node.raw, flags, questions);

module.exports = { charactersOf };
