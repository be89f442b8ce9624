'use strict';

// Where the rows and the lengths of texts lie in the inputs of a model: what a request has of both, and the inputs of several requests as those of one
// run.

const { bytesOf, elementCount } = require('../arrays.js');
const { Given } = require('../given.js');
const { HIDDEN, hiddenFor, withLength } = require('../lengths.js');
const { Named } = require('../named.js');
const { joinArrays, joinShorter, withRows } = require('../rows.js');

/** @typedef {import('./requests.js').Waiting} Waiting */
/** @typedef {import('./families.js').Family} Family */

class RowLayout {
  #inputs;

  /**
   * @param {import('../inputs.js').Signature[]} inputs
   * @param {number[]} axes of the rows; -1 for an input that has none
   * @param {number[]} lengths the axes of the lengths; -1 where an input has none
   */
  constructor(inputs, axes, lengths) {
    this.#inputs = inputs;
    this.axes = axes;
    this.lengths = lengths;
  }

  /** The rows of a request; nothing if its inputs are not those of rows. */
  rowsOf({ shapes, values }) {
    let rows, length;
    for (let i = 0; i < this.#inputs.length; i++) {
      const [input, shape, axis, along] = [this.#inputs[i], shapes[i], this.axes[i], this.lengths[i]];
      if (!isPlain(input, values[input.name], shape)) return undefined;
      if (axis === -1) continue;
      if (shape.length !== input.shape.length || (rows ?? shape[axis]) !== shape[axis]) return undefined;
      rows = shape[axis];
      if (along === -1) continue;
      if ((length ?? shape[along]) !== shape[along]) return undefined;
      length = shape[along];
    }
    return rows;
  }

  /** Whether the values are arrays of whole elements, as many as the shapes say. */
  isPlain({ shapes, values }) {
    for (let i = 0; i < this.#inputs.length; i++) if (!isPlain(this.#inputs[i], values[this.#inputs[i].name], shapes[i])) return false;
    return true;
  }

  /** The length of a text, or 0. */
  lengthOf(shapes) {
    const i = this.lengths.findIndex((axis) => axis !== -1);
    return i === -1 ? 0 : shapes[i][this.lengths[i]];
  }

  /** The shapes for one row, and a text of that length. */
  oneOf(shapes, length) {
    return shapes.map((shape, i) => withLength(withRows(shape, this.axes[i], 1), this.lengths[i], length));
  }

  /** Whether shapes are the same apart from the rows, and the length. */
  areSame(one, shapes) {
    for (let i = 0; i < one.length; i++) {
      if (one[i].length !== shapes[i].length) return false;
      for (let axis = 0; axis < one[i].length; axis++) if (axis !== this.axes[i] && axis !== this.lengths[i] && one[i][axis] !== shapes[i][axis]) return false;
    }
    return true;
  }

  /** The elements of the largest input, of so many rows and that length. */
  elementsOf(one, rows, length) {
    let most = 0;
    one.forEach((shape, i) => {
      if (this.axes[i] !== -1) most = Math.max(most, rows * elementCount(withLength(shape, this.lengths[i], length)));
    });
    return most;
  }

  /** Whether two requests have the same values for inputs without rows. */
  haveSame({ given: one }, { given: other }) {
    return this.#inputs.every(({ name }, i) => {
      return this.axes[i] !== -1 || Buffer.compare(bytesOf(one.values[name]), bytesOf(other.values[name])) === 0;
    });
  }

  /**
   * The inputs of requests, one after the other.
   * @param {Waiting[]} group
   * @param {number} all their rows
   */
  join(group, all) {
    return this.#joined(group, (shape, i) => withRows(shape, this.axes[i], all), joinArrays);
  }

  /**
   * The inputs of texts of different lengths, filled up after their ends.
   * @param {Family} family
   * @param {Waiting[]} group
   * @param {number} all their rows
   * @param {number} filled the length to which they are filled up
   */
  fill(family, group, all, filled) {
    const shapeOf = (shape, i) => withLength(withRows(shape, this.axes[i], all), this.lengths[i], filled);
    const given = this.#joined(group, shapeOf, joinShorter);
    const lengths = group.flatMap(({ rows, length }) => new Array(rows).fill(length));
    given.values[HIDDEN] = hiddenFor(lengths, filled);
    given.lengths = { long: family.oneOf(filled), short: family.oneOf(Math.min(...lengths)) };
    return given;
  }

  /** One input of all requests for each that has rows; the others they have in common. */
  #joined(group, shapeOf, joinParts) {
    const values = new Named();
    const [{ given: first }] = group;
    const shapes = this.#inputs.map(({ name, dataType }, i) => {
      const [axis, shape] = [this.axes[i], shapeOf(first.shapes[i], i)];
      const parts = () => group.map(({ given }) => ({ array: given.values[name], shape: given.shapes[i] }));
      values[name] = axis === -1 ? first.values[name] : joinParts(dataType, parts(), axis, shape);
      return shape;
    });
    return new Given(shapes, values, false, false);
  }
}

/** Whether a value is an array of whole elements. */
const isPlain = ({ dataType }, array, shape) => ArrayBuffer.isView(array) && !dataType.endsWith('int4') && array.length === elementCount(shape);

module.exports = { RowLayout };
