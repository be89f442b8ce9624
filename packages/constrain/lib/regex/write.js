'use strict';

// Expressions in the syntax of Rust's regular expressions, which the native part compiles.

const { ALL, SURROGATES, complement, surrogatesIn, union, without } = require('./sets.js');

/** Nothing matches it. */
const NEVER = '[a&&b]';
const BEYOND = [[0x10000, 0x10ffff]];

function letter(code) {
  const text = String.fromCodePoint(code);
  return /[A-Za-z0-9]/.test(text) ? text : `\\x{${code.toString(16)}}`;
}

const ranges = (set) => set.map(([first, last]) => (first === last ? letter(first) : `${letter(first)}-${letter(last)}`)).join('');

/** A set as it is written most shortly. Texts have no surrogates, so they may be in it or not. */
function writeSet(set) {
  const found = without(set, [SURROGATES]);
  if (found.length === 0) return NEVER;
  if (found.length === 1 && found[0][0] === found[0][1]) return letter(found[0][0]);
  const others = complement(union(found, [SURROGATES]));
  if (others.length === 0) return `[${ranges(ALL)}]`;
  return found.length <= others.length ? `[${ranges(found)}]` : `[^${ranges(others)}]`;
}

/** @param {number} min @param {number} max */
function quantifier(min, max) {
  if (max === Infinity && min < 2) return min === 0 ? '*' : '+';
  if (min === 0 && max === 1) return '?';
  return max === Infinity ? `{${min},}` : `{${min},${max}}`;
}

/** Characters of what is written. */
const LONGEST = 1 << 18;

class Writer {
  #text = '';
  #isUnits;

  /**
   * @param {boolean} isUnits whether sets are of code units. A character beyond them is two of those that a set has all of, so any number of them is
   * any number of characters; otherwise it is left out.
   */
  constructor(isUnits) {
    this.#isUnits = isUnits;
  }

  /** Nothing if it is too long: parts are written wherever they are used. */
  get text() {
    return this.#text.length > LONGEST ? undefined : this.#text;
  }

  add({ set, all, any, repeated, min, max }) {
    if (this.#text.length > LONGEST) return;
    if (set !== undefined) this.#text += writeSet(set);
    else if (all !== undefined) for (const part of all) this.#addPart(part, part.any !== undefined);
    else if (any !== undefined) this.#addChoices(any);
    else this.#addRepeated(repeated, min, max);
  }

  #addPart(part, isGroup) {
    if (isGroup) this.#text += '(?:';
    this.add(part);
    if (isGroup) this.#text += ')';
  }

  #addChoices(any) {
    any.forEach((part, i) => {
      if (i > 0) this.#text += '|';
      this.add(part);
    });
  }

  #addRepeated(repeated, min, max) {
    const { set } = repeated;
    const isAnyNumber = this.#isUnits && min < 2 && max === Infinity && set !== undefined && surrogatesIn(set) === 'all';
    if (isAnyNumber) this.#text += writeSet(union(set, BEYOND));
    else this.#addPart(repeated, set === undefined);
    this.#text += quantifier(min, max);
  }
}

/** @param {any} expression @param {boolean} isUnits @returns {string | undefined} */
function write(expression, isUnits) {
  if (expression === undefined) return NEVER;
  const writer = new Writer(isUnits);
  writer.add(expression);
  return writer.text === undefined ? undefined : `^(?:${writer.text})$`;
}

module.exports = { write };
