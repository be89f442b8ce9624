'use strict';

// The declared shapes of inputs, with sizes and names, and the sizes that a caller's shapes give to the names.

const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');
const { elementCount, requireArray } = require('./arrays.js');
const { isShape } = require('./tensor.js');

/** @typedef {import('./inputs.js').Signature} Signature */

/** Longer ones are not shown in messages. */
const MOST_LISTED = 16;

/** A name that stands for one size everywhere. Some writers call every dimension "?", and others by its place. */
const isName = (name) => /^[A-Za-z_]\w*$/.test(name);

const isKnown = (shape) => shape !== null && shape.every((size) => typeof size === 'number');

/** Whether a shape stands for the scalar that an input declares: programs feed `[1]` where exporters have written `[]`. */
const isOneForScalar = (declared, shape) => declared?.length === 0 && isShape(shape) && shape.every((size) => size === 1);

const text = (shape) => (shape === null ? 'one of any rank' : `[${shape.join(', ')}]`);

/** What is no shape. */
const listed = (shape) => (Array.isArray(shape) && shape.length <= MOST_LISTED ? `[${shape.map(show).join(', ')}]` : show(shape));

/** Whether a shape has the declared rank and sizes. */
function fits(declared, shape) {
  if (shape.length !== declared.length) return false;
  for (let axis = 0; axis < declared.length; axis++) if (typeof declared[axis] === 'number' && declared[axis] !== shape[axis]) return false;
  return true;
}

class Dimensions {
  #operator;
  #label;
  /** What names stand for, and the input that says so; nothing before the first name. @type {Map<string, {size: number, by: string}> | undefined} */
  #sizes;

  /**
   * @param {string} operator for messages
   * @param {string} label likewise
   */
  constructor(operator, label) {
    this.#operator = operator;
    this.#label = label;
  }

  #refuse(message) {
    throw typeError(this.#operator, this.#label, message);
  }

  /** Checks that something is a shape. */
  requireShape(place, shape) {
    if (!isShape(shape)) this.#refuse(`${place}: found ${listed(shape)}, allowed an array of sizes`);
  }

  /** Holds a shape against the declared one. */
  requireFit(place, declared, shape) {
    if (declared !== null && !fits(declared, shape)) this.#refuse(`${place}: found the shape ${text(shape)}, allowed ${text(declared)}`);
  }

  /**
   * Holds a shape against what the input declares, and names against what other inputs say.
   * @param {Signature} signature
   * @param {number[]} shape
   */
  bind({ name, shape: declared }, shape) {
    if (declared === null) return;
    if (!fits(declared, shape)) this.requireFit(`inputs: ${quote(name)}`, declared, shape);
    for (let axis = 0; axis < declared.length; axis++) {
      const size = declared[axis];
      if (typeof size === 'number' || !isName(size)) continue;
      this.#sizes ??= new Map();
      const known = this.#sizes.get(size);
      if (known === undefined) this.#sizes.set(size, { size: shape[axis], by: name });
      else if (known.size !== shape[axis]) {
        const others = known.by === name ? 'the same input' : quote(known.by);
        const found = `${shape[axis]} for the dimension ${quote(size)}, in the shape ${text(shape)}`;
        this.#refuse(`inputs: ${quote(name)}: found ${found}, allowed ${known.size}, which ${others} has`);
      }
    }
  }

  /** The size of a declared dimension, if it is known. */
  #sizeOf(size) {
    return typeof size === 'number' ? size : isName(size) ? this.#sizes?.get(size)?.size : undefined;
  }

  /**
   * The shape of an input that follows from the others.
   * @param {Signature} signature
   * @returns {number[]}
   */
  follow({ name, shape }) {
    if (shape === null) this.#refuse(`${quote(name)}: found no shape, allowed ${text(shape)}`);
    return shape.map((size) => this.#sizeOf(size) ?? this.#refuse(`${quote(name)}: found no shape, allowed one like ${text(shape)}`));
  }

  /**
   * The shape of so many elements, if that is the only one.
   * @param {Signature} signature
   * @param {number} length
   */
  solve({ dataType, shape }, length) {
    if (shape === null) return undefined;
    const known = shape.map((size) => this.#sizeOf(size));
    const open = known.filter((size) => size === undefined).length;
    if (open === 0) return known;
    if (open > 1 || dataType.endsWith('int4')) return undefined;
    const rest = elementCount(known.filter((size) => size !== undefined));
    if (rest === 0) return undefined;
    // What does not divide is refused for its number of elements.
    const size = Math.ceil(length / rest);
    return known.map((other) => other ?? size);
  }

  /**
   * Holds an array against the shape that follows for it; if other inputs have said sizes, the error names them.
   * @param {Signature} signature
   */
  requireCount({ name, dataType, shape: declared }, array, shape) {
    const place = `inputs: ${quote(name)}`;
    const known = declared.filter((size) => typeof size === 'string' && isName(size) && this.#sizes?.has(size));
    const count = elementCount(shape);
    if (known.length > 0 && array.length !== count && !dataType.endsWith('int4')) {
      const because = [...new Set(known)].map((name) => [name, this.#sizes.get(name)]).map(([name, { size, by }]) => `${quote(name)} is ${size} in ${quote(by)}`);
      this.#refuse(`${place}: found ${array.length} elements, allowed ${count} for the shape ${text(shape)}, since ${because.join(', ')}`);
    }
    requireArray(this.#operator, this.#label, place, dataType, shape, array);
  }
}

module.exports = { Dimensions, isKnown, isName, isOneForScalar, text };
