'use strict';

// The input of a run: values of every kind, and their shapes.

const { arrayOver } = require('./arrays.js');
const { UnreadElements } = require('./unread.js');
const { Named } = require('./named.js');

const isInMemory = (value) => ArrayBuffer.isView(value) || value instanceof UnreadElements;

const copyOf = (value) => (value instanceof UnreadElements ? value.share() : ArrayBuffer.isView(value) ? value.slice() : value);

class Given {
  /** The values that the caller has passed, by the names of the inputs. */
  passed;
  /** Those that are computed with. */
  values;
  /** Of texts that may end earlier: the shapes of one of the full length, and of a shorter one that fits. @type {{long: number[][], short: number[][]} | undefined} */
  lengths;
  #isOwn = false;
  #key;

  /**
   * @param {any[]} shapes of all inputs in their order: a list of them for a sequence, undefined for an optional value without content
   * @param {Record<string, any>} values arrays, elements that are kept, MLTensors of the model's context, lists of a sequence's arrays
   * @param {boolean} hasUnread whether elements that are kept are among the values
   * @param {boolean} hasTensors whether MLTensors are
   */
  constructor(shapes, values, hasUnread, hasTensors) {
    this.shapes = shapes;
    this.passed = this.values = values;
    this.hasUnread = hasUnread;
    this.hasTensors = hasTensors;
  }

  /** The key of its plan. */
  get key() {
    return (this.#key ??= keyOf(this.shapes) + (this.lengths === undefined ? '' : 'ends'));
  }

  /**
   * Copies the arrays, once. Call it before anything is awaited: then the caller may change its own.
   * @returns {this}
   */
  own() {
    if (this.#isOwn) return this;
    this.#isOwn = true;
    const copies = new Named();
    for (const [name, value] of Object.entries(this.values)) copies[name] = Array.isArray(value) ? value.map(copyOf) : copyOf(value);
    this.values = copies;
    return this;
  }

  /**
   * Replaces elements that are kept by arrays.
   * @returns {this}
   */
  readUnread() {
    if (!this.hasUnread) return this;
    this.hasUnread = false;
    const arrays = new Named();
    for (const [name, value] of Object.entries(this.values)) arrays[name] = value instanceof UnreadElements ? value.read() : value;
    this.values = arrays;
    return this;
  }

  /**
   * The same with arrays for MLTensors.
   * @param {any} context of the model
   * @returns {Promise<Given | undefined>} nothing if a tensor cannot be read
   */
  async readTensors(context) {
    const values = Object.entries(this.own().values);
    if (!values.every(([, value]) => isInMemory(value) || value?.readable === true)) return undefined;
    const arrays = new Named();
    const read = async ([name, value]) => {
      arrays[name] = isInMemory(value) ? value : arrayOver(value.dataType, await context.readTensor(value));
    };
    await Promise.all(values.map(read));
    const given = new Given(this.shapes, arrays, this.hasUnread, false);
    given.passed = this.passed;
    given.#isOwn = true;
    return given;
  }
}

/** Whether it is that of a sequence's tensors; an empty list is that of a tensor or of no tensors, of one input always the same. */
const isList = (shape) => Array.isArray(shape?.[0]);

/** The key of a plan. */
function keyOf(shapes) {
  let key = '';
  for (const shape of shapes) key += isList(shape) ? `${shape.length}(${shape.join('|')});` : `${shape};`;
  return key;
}

/** Whether they are surely the same; lists of shapes may be and not be found so. */
function areSame(left, right) {
  for (let i = 0; i < right.length; i++) {
    const [one, other] = [left[i], right[i]];
    if (one === other) continue;
    if (one === undefined || other === undefined || one.length !== other.length) return false;
    for (let axis = 0; axis < one.length; axis++) if (one[axis] !== other[axis]) return false;
  }
  return true;
}

module.exports = { Given, areSame };
