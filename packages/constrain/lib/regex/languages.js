'use strict';

// Texts that a part of a regular expression matches, as expressions without anchors: an anchor is in which of four languages a text is. Those of
// START begin where the whole text begins, those of END end where it ends.

const { union } = require('./sets.js');

/**
 * @typedef {{ set: import('./sets.js').Ranges } | { all: Expression[] } | { any: Expression[] } | { repeated: Expression, min: number, max: number }} Expression
 * @typedef {(Expression | undefined)[]} Languages by anchors; nothing where there is no text
 */

const START = 1;
const END = 2;
const KINDS = [0, START, END, START | END];

/** @type {Expression} */
const EMPTY = { all: [] };

/** @param {Expression | undefined} expression @param {number} [anchors] @returns {Languages} */
const only = (expression, anchors = 0) => KINDS.map((kind) => (kind === anchors ? expression : undefined));

/** @param {import('./sets.js').Ranges} set @returns {Languages} */
const ofSet = (set) => only(set.length === 0 ? undefined : { set });

/** Of which expressions it is known, because parts are in several. @type {WeakMap<object, boolean>} */
const nullable = new WeakMap();

/** Whether nothing is one of the texts. @param {any} expression @returns {boolean} */
function isNullable(expression) {
  let found = nullable.get(expression);
  if (found === undefined) {
    const { all, any, repeated, min } = expression;
    if (all !== undefined) found = all.every(isNullable);
    else if (any !== undefined) found = any.some(isNullable);
    else found = repeated !== undefined && (min === 0 || isNullable(repeated));
    nullable.set(expression, found);
  }
  return found;
}

/** @param {(Expression | undefined)[]} list @returns {Expression | undefined} */
function anyOf(list) {
  const found = list.flatMap((expression) => (expression === undefined ? [] : (/** @type {any} */ (expression).any ?? [expression])));
  // Sets are one.
  const sets = found.filter(({ set }) => set !== undefined);
  const others = found.filter(({ set }) => set === undefined);
  const any = sets.length === 0 ? others : [{ set: union(...sets.map(({ set }) => set)) }, ...others];
  return any.length > 1 ? { any } : any[0];
}

/** @param {Expression} a @param {Expression} b @returns {Expression} */
function inOrder(a, b) {
  const all = [a, b].flatMap((expression) => /** @type {any} */ (expression).all ?? [expression]);
  return all.length === 1 ? all[0] : { all };
}

/** @param {Languages[]} list @returns {Languages} */
const alternatives = (list) => KINDS.map((kind) => anyOf(list.map((languages) => languages[kind])));

/** Whether no text has anchors. @param {Languages} languages */
const isPlain = (languages) => languages.every((expression, kind) => kind === 0 || expression === undefined);

/** Texts of all, one behind the other. @param {Languages[]} list @returns {Languages} */
function sequence(list) {
  if (!list.every(isPlain)) return list.reduce(pair, only(EMPTY));
  const all = list.map(([expression]) => expression);
  return only(all.includes(undefined) ? undefined : all.length === 1 ? all[0] : { all });
}

/**
 * Texts of one behind those of another. Before the start, and behind the end, there is nothing.
 * @param {Languages} before
 * @param {Languages} behind
 * @returns {Languages}
 */
function pair(before, behind) {
  /** @type {Expression[][]} */
  const found = KINDS.map(() => []);
  for (const a of KINDS) {
    for (const b of KINDS) {
      let [first, second] = [before[a], behind[b]];
      if (first === undefined || second === undefined) continue;
      if (b & START) first = isNullable(first) ? EMPTY : undefined;
      if (a & END) second = isNullable(second) ? EMPTY : undefined;
      if (first !== undefined && second !== undefined) found[a | b].push(inOrder(first, second));
    }
  }
  return found.map(anyOf);
}

/** Nothing where there are anchors in what is repeated. @param {Languages} languages @returns {Languages | undefined} */
function repetition(languages, min, max) {
  if (max === 0) return only(EMPTY);
  const hasAnchors = !isPlain(languages);
  if (hasAnchors && max === 1) return min === 1 ? languages : alternatives([only(EMPTY), languages]);
  if (hasAnchors) return undefined;
  const [repeated] = languages;
  if (repeated === undefined) return only(min === 0 ? EMPTY : undefined);
  return only(min === 1 && max === 1 ? repeated : { repeated, min, max });
}

/** The texts that match as a whole. @param {Languages} languages */
const whole = (languages) => anyOf(languages);

/** The texts that have a match in them, among others of a set. @param {Languages} languages @param {import('./sets.js').Ranges} set */
function within(languages, set) {
  const others = { repeated: { set }, min: 0, max: Infinity };
  return anyOf(languages.map((expression, kind) => {
    if (expression === undefined) return undefined;
    const begun = kind & START ? expression : inOrder(others, expression);
    return kind & END ? begun : inOrder(begun, others);
  }));
}

module.exports = { EMPTY, END, START, alternatives, ofSet, only, repetition, sequence, whole, within };
