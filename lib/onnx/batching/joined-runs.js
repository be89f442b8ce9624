'use strict';

// Runs of several requests as one: whether that gives what they give alone, the run, and each caller's part of the results.

const { NORMAL } = require('../../scheduling.js');
const { joinRows } = require('../joinable.js');
const { fitLengths } = require('../lengths.js');
const { put } = require('../named.js');
const { deliver } = require('../places.js');
const { beginningOf, partOf } = require('../rows.js');
const { watched } = require('../watch.js');
const { leave, wantedOf, whenAllAreOver } = require('./requests.js');

/** @typedef {import('../model.js').Model} Model */
/** @typedef {import('../joinable.js').Refused} Refused */
/** @typedef {import('./requests.js').Waiting} Waiting */
/** @typedef {import('./families.js').Family} Family */
/** @typedef {import('./row-layout.js').RowLayout} RowLayout */
/** @typedef {import('./counts.js').Counts} Counts */

/** So many different reasons are kept for whoever wants to know. */
const MOST_REFUSED = 16;

class JoinedRuns {
  #model;
  #layout;
  #counts;
  /** Why rows are not joined. @type {Refused[]} */
  refused = [];
  /** Why texts of different lengths are not joined. @type {Refused[]} */
  refusedLengths = [];

  /**
   * @param {Model} model
   * @param {RowLayout} layout
   * @param {Counts} counts
   */
  constructor(model, layout, counts) {
    this.#model = model;
    this.#layout = layout;
    this.#counts = counts;
  }

  /**
   * @param {Family} family
   * @param {Waiting[]} group
   * @returns {Promise<(() => void) | undefined>} what gives each caller its results; nothing if they cannot be joined
   */
  async run(family, group) {
    let all = 0;
    for (const { rows } of group) all += rows;
    // Of each caller's rows as well: they are computed as those of one are.
    for (const { rows, length } of group) if (rows > 1 && !(await this.#canJoin(family.of(length), rows))) return undefined;
    const lengths = [...new Set(group.map(({ length }) => length))];
    const longest = Math.max(...lengths);
    const areFilled = lengths.length > 1;
    const filled = areFilled ? family.filledFor(longest) : longest;
    const equal = family.of(filled);
    try {
      if (!(await this.#canJoin(equal, all))) return undefined;
      if (areFilled && !(await this.#canFill(family, equal, filled, lengths))) return undefined;
    } catch (error) {
      // A table of places may end before.
      if (filled === longest) throw error;
      family.tooLong.add(filled);
      return await this.run(family, group);
    }
    const given = areFilled ? this.#layout.fill(family, group, all, filled) : this.#layout.join(group, all);
    this.#counts.publish(group.length, all, group[0].began);
    const results = await this.#runAll(given, group);
    this.#counts.joined(group.length, areFilled);
    return () => this.#divide(group, results, equal, all);
  }

  /** As urgent as the most urgent of them. It ends when nobody wants it any more. */
  async #runAll(given, group) {
    const wanted = wantedOf(group);
    const priority = Math.min(...group.map((waiting) => waiting.priority));
    const work = (watch) => this.#model.runAlone(given, { wanted, watch });
    const watching = whenAllAreOver(group);
    return await (priority === NORMAL && watching === undefined ? work(0) : watched(watching, work, undefined, { priority }));
  }

  /**
   * Whether so many rows are computed as one is.
   * @param {import('./families.js').Equal} equal
   * @param {number} rows
   */
  async #canJoin(equal, rows) {
    if (!equal.outputs.has(rows)) {
      const { axes, refused } = await joinRows(this.#model, equal.one, this.#layout.axes, rows);
      equal.outputs.set(rows, axes);
      if (refused !== undefined) {
        equal.isRefused = true;
        note(this.refused, refused);
      }
    }
    return equal.outputs.get(rows) !== undefined;
  }

  /**
   * Whether texts of these lengths give what they give alone when they are filled up to a length.
   * @param {Family} family
   * @param {import('./families.js').Equal} equal of the length to which they are filled up
   * @param {number} filled
   * @param {number[]} lengths
   */
  async #canFill(family, { one, fits }, filled, lengths) {
    const unknown = lengths.filter((length) => length < filled && !fits.has(length));
    if (unknown.length > 0) {
      const found = await fitLengths(this.#model, one, unknown.map((length) => family.oneOf(length)));
      found.forEach(({ fit, refused }, i) => {
        fits.set(unknown[i], fit);
        if (refused === undefined) return;
        family.unfit.add(unknown[i]);
        note(this.refusedLengths, refused);
      });
    }
    return lengths.every((length) => length === filled || fits.get(length) !== undefined);
  }

  /** Gives each caller its results. */
  #divide(group, results, { outputs, fits }, all) {
    const axes = outputs.get(all);
    let from = 0;
    for (const waiting of group) {
      const { given, options, rows, length, resolve, reject } = waiting;
      const fit = fits.get(length);
      from += rows;
      if (waiting.isOver) {
        leave(waiting);
        continue;
      }
      try {
        const own = {};
        for (const [name, result] of Object.entries(results)) {
          if (options.wanted !== undefined && !options.wanted.has(name)) continue;
          const [axis, first] = [axes.get(name), from - rows];
          put(own, name, fit === undefined ? partOf(result, axis, first, rows, all) : beginningOf(result, axis, first, rows, all, fit.get(name)));
        }
        resolve(options.places === undefined ? own : deliver(this.#model, own, options.places, given));
      } catch (error) {
        reject(error);
      }
    }
  }
}

/** Notes a reason, once. */
function note(list, refused) {
  const isKnown = list.some(({ node, reason }) => node === refused.node && reason === refused.reason);
  if (!isKnown && list.length < MOST_REFUSED) list.push(refused);
}

module.exports = { JoinedRuns };
