'use strict';

// Chooses plans to make before they are asked for. Texts have many lengths, and each length needs a plan. If several shapes were met that differ in
// one open dimension, sizes in between will probably follow. The largest come first: their runs are the longest, and a plan makes them longer.

const { isName } = require('./dimensions.js');

/** So many sizes have to be met first. */
const FEW = 4;
/** The number of unused plans, at first and at most. When one is used, the number doubles. */
const ROOM = 8;
const MOST_ROOM = 32;
/** The largest size is far from the next one if it is larger by this. */
const FAR = 2;
/** Between sizes that are further apart, as those of sounds, more lie than plans are kept. */
const WIDE = 512;
/** The number of sets of other sizes that are kept apart. */
const MOST_FAMILIES = 32;

/**
 * Sizes of one dimension, all others being the same, and the shapes of the last ones; whether there is nothing more between those that
 * were met.
 * @typedef {{name: string, sizes: Map<string, number>, shapes: number[][], met: Set<number>, tried: Set<number>, isDone: boolean}} Family
 */

class Ahead {
  #inputs;
  /** The names of open dimensions. @type {string[]} */
  #names;
  /** Those whose sizes say nothing about others. @type {Set<number | string>} */
  #leftOut = new Set();
  /** The one that was met last is the last one. @type {Map<string, Family>} */
  #families = new Map();
  #room = ROOM;
  /** Whether there may be a plan to make: runs that change nothing here end without a search. */
  #hasNews = false;
  /** Plans that were made ahead and not used. */
  #unused = 0;

  /** @param {{shape: (number | string | null)[] | null, sequence?: boolean, optional?: boolean}[]} inputs */
  constructor(inputs) {
    this.#inputs = inputs;
    const isPlain = ({ shape, sequence, optional }) => shape !== null && !sequence && !optional && shape.every((size) => typeof size === 'number' || isName(size));
    this.#names = inputs.every(isPlain) ? [...new Set(inputs.flatMap(({ shape }) => shape.filter(isName)))] : [];
  }

  /**
   * Names no sizes of these dimensions.
   * @param {(number | string)[]} names
   */
  leaveOut(names) {
    for (const name of names) this.#leftOut.add(name);
  }

  /**
   * A plan was asked for.
   * @param {number[][]} shapes
   */
  met(shapes) {
    const sizes = this.#sizesOf(shapes);
    if (sizes === undefined) return;
    this.#hasNews = true;
    for (const name of this.#names) {
      if (this.#leftOut.has(name)) continue;
      const others = this.#names.filter((other) => other !== name).map((other) => sizes.get(other));
      const key = `${name}:${others}`;
      const family = this.#families.get(key) ?? { name, sizes, shapes, met: new Set(), tried: new Set(), isDone: false };
      family.shapes = shapes;
      const size = sizes.get(name);
      if (!family.met.has(size) && family.met.size <= 2 * WIDE) {
        family.met.add(size);
        family.isDone = false;
      }
      this.#families.delete(key);
      this.#families.set(key, family);
      if (this.#families.size > MOST_FAMILIES) this.#families.delete(this.#families.keys().next().value);
    }
  }

  /** A plan was made ahead. */
  created() {
    this.#unused++;
  }

  /** A plan that was made ahead is used. */
  used() {
    this.#unused--;
    this.#hasNews = true;
    this.#room = Math.min(2 * this.#room, MOST_ROOM);
  }

  /** An unused one is gone. */
  gone() {
    this.#unused--;
    this.#hasNews = true;
  }

  /**
   * The shapes to make a plan for next, if there are any. They are not named again.
   * @returns {number[][] | undefined}
   */
  next() {
    if (!this.#hasNews) return undefined;
    const shapes = this.#search();
    if (shapes === undefined) this.#hasNews = false;
    return shapes;
  }

  #search() {
    if (this.#unused >= this.#room) return undefined;
    const family = [...this.#families.values()].findLast(({ met }) => met.size >= FEW);
    if (family === undefined || family.isDone) return undefined;
    const { met, tried } = family;
    const ordered = [...met].sort((a, b) => b - a);
    // A size far from all others says nothing about sizes in between.
    const most = ordered[ordered[0] > FAR * ordered[1] ? 1 : 0];
    const least = ordered.at(-1);
    for (let size = most - 1; size > least && most - least <= WIDE; size--) {
      if (met.has(size) || tried.has(size)) continue;
      tried.add(size);
      return this.#shapesOf(family, size);
    }
    family.isDone = true;
    return undefined;
  }

  /** By names; nothing where two inputs contradict each other, which only some operators allow. */
  #sizesOf(shapes) {
    if (this.#names.length === 0) return undefined;
    const sizes = new Map();
    for (const [position, { shape }] of this.#inputs.entries()) {
      for (const [axis, name] of shape.entries()) {
        if (typeof name === 'number') continue;
        const size = shapes[position][axis];
        if ((sizes.get(name) ?? size) !== size) return undefined;
        sizes.set(name, size);
      }
    }
    return sizes;
  }

  #shapesOf({ name, sizes, shapes }, size) {
    const sizeOf = (each) => (typeof each === 'number' ? each : each === name ? size : sizes.get(each));
    // A session's scalars may have other shapes than they are declared with.
    return this.#inputs.map(({ shape }, position) => (shape.length === 0 ? shapes[position] : shape.map(sizeOf)));
  }
}

module.exports = { Ahead, FEW, MOST_ROOM, ROOM };
