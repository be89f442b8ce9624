'use strict';

// Regular expressions of JavaScript as those of Rust that match the same texts. What has no such expression is refused with its place.

const { RegExpParser } = require('@eslint-community/regexpp');
const { charactersOf } = require('./characters.js');
const languages = require('./languages.js');
const { SURROGATES, surrogatesIn, without } = require('./sets.js');
const { write } = require('./write.js');

/** How often something may be repeated. */
const MOST_REPEATED = 100_000;

const parser = new RegExpParser();

class Refusal extends Error {
  constructor(at, text) {
    super(`character ${at}: ${text}`);
  }
}

const refuse = (node, text) => {
  throw new Refusal(node.start, `found ${node.raw.length > 40 ? `${node.raw.slice(0, 40)}…` : node.raw}, ${text}`);
};

/** What is not supported, by the kind of assertion. */
const ASSERTIONS = { lookahead: 'a lookahead, which is not supported', lookbehind: 'a lookbehind, which is not supported', word: 'a word boundary, which is not supported' };

class Translation {
  #excluded;
  #questions;

  /**
   * @param {import('./sets.js').Ranges} excluded characters that texts do not have
   * @param {{ left: number }} questions
   */
  constructor(excluded, questions) {
    this.#excluded = excluded;
    this.#questions = questions;
  }

  /** @returns {import('./languages.js').Languages} */
  of(node, flags) {
    switch (node.type) {
      case 'Pattern':
      case 'CapturingGroup':
        return this.#alternatives(node, flags);
      case 'Group':
        return this.#alternatives(node, modified(flags, node.modifiers));
      case 'Alternative':
        return languages.sequence(paired(node.elements, flags).map((element) => this.of(element, flags)));
      case 'Assertion':
        return assertion(node, flags);
      case 'Quantifier':
        return this.#repetition(node, flags);
      case 'Backreference':
        return refuse(node, 'a backreference, which is not supported');
      default:
        return this.#set(node, flags);
    }
  }

  #alternatives(node, flags) {
    return languages.alternatives(node.alternatives.map((alternative) => this.of(alternative, flags)));
  }

  #repetition(node, flags) {
    const { min, max } = node;
    const most = max === Infinity ? min : max;
    if (most > MOST_REPEATED) refuse(node, `allowed repetitions up to ${MOST_REPEATED}`);
    return languages.repetition(this.of(node.element, flags), min, max) ?? refuse(node, 'an anchor in what is repeated, which is not supported');
  }

  #set(node, flags) {
    if (hasStrings(node)) refuse(node, 'a class with strings, which is not supported');
    const set = charactersOf(node, flags, this.#questions) ?? refuse(node, 'too many different properties of Unicode, and classes beyond ASCII without regard to case');
    const isUnits = !flags.u && !flags.v;
    if (isUnits && surrogatesIn(set) === 'some') refuse(node, 'a half of a character beyond U+FFFF, which needs the flag u');
    return languages.ofSet(this.#excluded.length === 0 ? set : without(set, this.#excluded));
  }
}

/** The flags within a group. */
function modified(flags, modifiers) {
  if (!modifiers) return flags;
  const { add, remove } = modifiers;
  const names = { i: 'ignoreCase', m: 'multiline', s: 'dotAll' };
  const changed = Object.entries(names).filter(([, name]) => add?.[name] || remove?.[name]);
  return { ...flags, ...Object.fromEntries(changed.map(([flag, name]) => [flag, Boolean(add?.[name])])) };
}

function assertion(node, flags) {
  if (node.kind !== 'start' && node.kind !== 'end') return refuse(node, ASSERTIONS[node.kind]);
  if (flags.m) return refuse(node, 'an anchor with the flag m, which is not supported');
  return languages.only(languages.EMPTY, node.kind === 'start' ? languages.START : languages.END);
}

/** Without the flag u a character beyond U+FFFF is two in a row. */
function paired(elements, flags) {
  if (flags.u || flags.v) return elements;
  const isHalf = (element, first, last) => element?.type === 'Character' && element.value >= first && element.value <= last;
  const [least, most] = SURROGATES;
  return elements.flatMap((element, i) => {
    if (isHalf(element, 0xdc00, most) && isHalf(elements[i - 1], least, 0xdbff)) return [];
    const behind = elements[i + 1];
    if (!isHalf(element, least, 0xdbff) || !isHalf(behind, 0xdc00, most)) return [element];
    return [{ type: 'Pair', value: String.fromCharCode(element.value, behind.value).codePointAt(0) }];
  });
}

/** Whether a class with the flag v has strings of several characters. */
function hasStrings(node) {
  if (node === null || typeof node !== 'object') return false;
  if (node.type === 'ClassStringDisjunction' || node.strings) return true;
  return [node.elements, [node.expression, node.left, node.right]].some((parts) => parts?.some((part) => part && hasStrings(part)));
}

function parsed(source, { u, v }) {
  try {
    return parser.parsePattern(source, 0, source.length, { unicode: u, unicodeSets: v });
  } catch (error) {
    if (typeof error.index !== 'number') throw error;
    throw new Refusal(error.index, error.message.slice(error.message.lastIndexOf(': ') + 2));
  }
}

/**
 * Translates an expression.
 * @param {string} source
 * @param {string} letters flags
 * @param {object} options
 * @param {boolean} options.isWhole whether it matches a whole text, or some of it
 * @param {import('./sets.js').Ranges} options.excluded characters that texts do not have
 * @param {{ left: number }} options.questions how often V8 may be asked for the characters of a class
 * @returns {string}
 */
function translate(source, letters, { isWhole, excluded, questions }) {
  const flags = { i: false, m: false, s: false, u: false, v: false, ...Object.fromEntries([...letters].map((flag) => [flag, true])) };
  const found = new Translation(excluded, questions).of(parsed(source, flags), flags);
  const everything = without([[0, 0x10ffff]], excluded);
  const text = write(isWhole ? languages.whole(found) : languages.within(found, everything), !flags.u && !flags.v);
  if (text === undefined) throw new Refusal(0, 'too large when it is compiled');
  return text;
}

module.exports = { Refusal, translate };
