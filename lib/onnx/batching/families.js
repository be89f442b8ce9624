'use strict';

// Requests that wait, in families of equal shapes apart from the rows and the length of a text, and what is known of runs of these shapes.

const { roundedLength, withLength } = require('../lengths.js');
const { isBefore } = require('./requests.js');

/** @typedef {import('./requests.js').Waiting} Waiting */
/** @typedef {import('./row-layout.js').RowLayout} RowLayout */
/** @typedef {import('../lengths.js').Fit} Fit */

/** What is known of runs of equal shapes apart from the rows. */
class Equal {
  /** Its requests run alone. */
  isRefused = false;
  /** By a number of rows: where those of the outputs are, or nothing if so many cannot be joined. @type {Map<number, Map<string, number> | undefined>} */
  outputs = new Map();
  /** Shorter texts in their place, by their lengths; nothing for one that does not fit. @type {Map<number, Fit | undefined>} */
  fits = new Map();

  /** @param {number[][]} one the shapes for one row */
  constructor(one) {
    this.one = one;
  }
}

/** So many lengths of a family are known at most. */
const MOST_LENGTHS = 1024;

/** Requests of the same shapes apart from the rows, and the length of a text. */
class Family {
  /** The more urgent first, and then in the order of the calls. @type {Waiting[]} */
  waiting = [];
  /** The rows that wait. */
  rows = 0;
  /** By the length. @type {Map<number, Equal>} */
  #equal = new Map();
  /** Lengths that fit into no longer text. @type {Set<number>} */
  unfit = new Set();
  /** Rounded lengths that the model does not take. @type {Set<number>} */
  tooLong = new Set();
  #lengths;

  /**
   * @param {number[][]} one the shapes for one row, and a text without length
   * @param {number[]} lengths the axes of the lengths
   */
  constructor(one, lengths) {
    this.one = one;
    this.#lengths = lengths;
  }

  /** The shapes for one text of a length. */
  oneOf(length) {
    return this.one.map((shape, i) => withLength(shape, this.#lengths[i], length));
  }

  /** What is known of texts of a length. */
  of(length) {
    let equal = this.#equal.get(length);
    if (equal === undefined) {
      if (this.#equal.size >= MOST_LENGTHS) this.#equal.clear();
      equal = new Equal(this.oneOf(length));
      this.#equal.set(length, equal);
    }
    return equal;
  }

  /** When the request came that has waited longest. */
  get oldest() {
    return this.waiting.reduce((began, waiting) => Math.min(began, waiting.began), Infinity);
  }

  add(waiting) {
    let at = this.waiting.length;
    while (at > 0 && isBefore(waiting, this.waiting[at - 1])) this.waiting[--at].passed++;
    this.waiting.splice(at, 0, waiting);
    this.rows += waiting.rows;
  }

  /** Whether it still waited. */
  remove(waiting) {
    const at = this.waiting.indexOf(waiting);
    if (at === -1) return false;
    this.waiting.splice(at, 1);
    this.rows -= waiting.rows;
    return true;
  }

  /** The length to which texts are filled up, the longest of which has this one. */
  filledFor(longest) {
    const rounded = roundedLength(longest);
    return this.tooLong.has(rounded) ? longest : rounded;
  }

  /** Takes some out. */
  take(group) {
    const gone = new Set(group);
    this.waiting = this.waiting.filter((waiting) => !gone.has(waiting));
    for (const { rows } of group) this.rows -= rows;
    return group;
  }
}

/** So many families without requests are kept. */
const MOST_FAMILIES = 256;

class Families {
  #layout;
  /** By the shapes. @type {Map<string, Family>} */
  #families = new Map();
  /** The one that was found last. @type {Family | undefined} */
  #last;

  /** @param {RowLayout} layout */
  constructor(layout) {
    this.#layout = layout;
  }

  /** The family of requests of these shapes. */
  of(shapes) {
    if (this.#last !== undefined && this.#layout.areSame(this.#last.one, shapes)) return this.#last;
    const one = this.#layout.oneOf(shapes, 0);
    const key = one.join(';');
    let family = this.#families.get(key);
    if (family === undefined) {
      family = new Family(one, this.#layout.lengths);
      if (this.#families.size >= MOST_FAMILIES) this.#forget();
      this.#families.set(key, family);
    }
    this.#last = family;
    return family;
  }

  #forget() {
    for (const [key, { waiting }] of this.#families) if (waiting.length === 0) this.#families.delete(key);
  }

  /** When the request came that has waited longest of some families; Infinity without any. */
  oldest(isMeant) {
    let began = Infinity;
    for (const family of this.#families.values()) if (family.waiting.length > 0 && isMeant(family)) began = Math.min(began, family.oldest);
    return began;
  }

  /** The first in order of those that have requests and are ready to go. */
  first(isReady) {
    let first;
    for (const family of this.#families.values()) {
      if (family.waiting.length === 0 || !isReady(family)) continue;
      if (first === undefined || isBefore(family.waiting[0], first.waiting[0])) first = family;
    }
    return first;
  }

  /** Counts that the first request of a family goes before less urgent ones of others. */
  pass({ waiting: [next] }) {
    for (const { waiting } of this.#families.values()) if (waiting[0]?.priority > next.priority) waiting[0].passed++;
  }
}

module.exports = { Families };
