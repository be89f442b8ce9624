'use strict';

// Reads the inputs that a caller passes: arrays with their shapes, checked against the model.

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');
const { requireArray, requireType } = require('./arrays.js');
const { Dimensions, isKnown, isOneForScalar, text } = require('./dimensions.js');
const { Given } = require('./given.js');
const { unreadOf } = require('./unread.js');
const { Named } = require('./named.js');
const { isShape } = require('./tensor.js');

/**
 * An input or output. Of a sequence the data type and the shape are those of its elements.
 * @typedef {{name: string, dataType: string, type: string, shape: (number | string)[] | null, optional?: boolean, sequence?: boolean,
 *   buffer?: ArrayBuffer, place?: string}} Signature `buffer` is the value of an input that need not be passed; `place` is what messages call
 *   it, as soon as an input was read
 */

/**
 * How inputs are read.
 * @typedef {object} Reading
 * @property {Record<string, ArrayBufferView>} [defaults] of inputs that need not be passed
 * @property {boolean} [keeps] whether elements that were not read may stay on the native side
 * @property {(value: unknown) => boolean} [isTensor] recognizes MLTensors, if these are accepted
 */

const isNothing = (value) => value === undefined || value === null;

/** Whether these are the names of all inputs, in their order. */
function areNames(names, signatures) {
  if (names.length !== signatures.length) return false;
  for (let i = 0; i < names.length; i++) if (names[i] !== signatures[i].name) return false;
  return true;
}

/** Reads the inputs of one run. */
class Reader {
  #operator;
  #label;
  #signatures;
  #reading;
  #dimensions;
  #values = new Named();
  #shapes;
  /** The positions of arrays whose shapes follow from others. @type {number[]} */
  #unshaped = [];
  #hasUnread = false;
  #hasTensors = false;

  /**
   * @param {string} operator
   * @param {string} label
   * @param {Signature[]} signatures
   * @param {Reading} reading
   */
  constructor(operator, label, signatures, reading) {
    this.#operator = operator;
    this.#label = label;
    this.#signatures = signatures;
    this.#reading = reading;
    this.#dimensions = new Dimensions(operator, label);
    this.#shapes = new Array(signatures.length);
  }

  /** @returns {Given} */
  read(given) {
    this.#checkNames(given);
    for (let i = 0; i < this.#signatures.length; i++) this.#readInput(i, given);
    this.#infer();
    return new Given(this.#shapes, this.#values, this.#hasUnread, this.#hasTensors);
  }

  /** @returns {never} */
  #refuse(message) {
    throw typeError(this.#operator, this.#label, message);
  }

  /** Checks that there is exactly what the model takes. */
  #checkNames(given) {
    if (given === null || typeof given !== 'object') this.#refuse(`inputs: found ${show(given)}, allowed an object with a value for each input`);
    const signatures = this.#signatures;
    const names = Object.keys(given);
    if (areNames(names, signatures)) return;
    const known = new Set(signatures.map(({ name }) => name));
    // Own properties only: an input can have the name of something that all objects inherit.
    const isMissing = ({ name, optional }) => !optional && !Object.hasOwn(given, name);
    if (signatures.some(isMissing) || names.some((name) => !known.has(name))) {
      const list = (all) => (all.length === 0 ? 'none' : all.map(quote).join(', '));
      this.#refuse(`inputs: found ${list(names)}, allowed exactly the model's inputs ${list([...known])}`);
    }
  }

  #readInput(i, given) {
    const signature = this.#signatures[i];
    const { name, optional } = signature;
    signature.place ??= `inputs: ${quote(name)}`;
    const usual = this.#reading.defaults?.[name];
    const value = !optional || Object.hasOwn(given, name) ? given[name] : usual;
    if (optional && isNothing(value) && usual === undefined) this.#values[name] = undefined;
    else if (signature.sequence) this.#readSequence(i, signature, value);
    else if (types.isTypedArray(value) || value === null || typeof value !== 'object') this.#readArray(i, signature, value);
    else this.#readTensor(i, signature, value);
  }

  /** An array without a shape. */
  #readArray(i, { name, dataType, shape, place }, array) {
    requireType(this.#operator, this.#label, place, dataType, array);
    this.#values[name] = array;
    if (isKnown(shape)) {
      requireArray(this.#operator, this.#label, place, dataType, shape, array);
      this.#shapes[i] = shape;
    } else this.#unshaped.push(i);
  }

  /** An array with its shape, or an MLTensor. */
  #readTensor(i, signature, value) {
    const { name, dataType, place } = signature;
    const { keeps, isTensor } = this.#reading;
    const isOnDevice = isTensor?.(value) === true;
    if (!isOnDevice && !('data' in value)) this.#refuse(`${place}: found ${show(value)}, allowed a typed array or { data, shape }`);
    const shape = value.shape ?? value.dims;
    const isOne = !isOnDevice && isOneForScalar(signature.shape, shape);
    const unread = keeps && !isOne ? unreadOf(value, shape) : undefined;
    // It is read once, since it may be a getter.
    const array = unread ?? (isOnDevice ? value : value.data);
    this.#requireDataType(place, signature, value);
    this.#dimensions.requireShape(`${place}: shape`, shape);
    if (!isOne) this.#dimensions.bind(signature, shape);
    if (unread !== undefined) this.#hasUnread = true;
    else if (isOnDevice) this.#hasTensors = true;
    else requireArray(this.#operator, this.#label, place, dataType, shape, array);
    this.#values[name] = array;
    this.#shapes[i] = isOne ? [] : [...shape];
  }

  #requireDataType(place, { dataType, type }, value) {
    const found = value.dataType ?? value.type;
    if (found !== undefined && found !== dataType && found !== type) this.#refuse(`${place}: found ${show(found)}, allowed ${quote(dataType)}`);
  }

  /** A sequence's tensors. Names of dimensions may stand for another size in each. */
  #readSequence(i, signature, list) {
    const { name, place } = signature;
    if (!Array.isArray(list)) this.#refuse(`${place}: found ${show(list)}, allowed an array of tensors { data, shape }`);
    const elements = Array.from(list, (element, position) => this.#readElement(`${place}[${position}]`, signature, element));
    this.#values[name] = elements.map(([array]) => array);
    this.#shapes[i] = elements.map(([, shape]) => shape);
  }

  /** An array and its shape. */
  #readElement(place, signature, element) {
    const { dataType, shape: declared } = signature;
    const isArray = types.isTypedArray(element);
    if (isArray && isKnown(declared)) {
      requireArray(this.#operator, this.#label, place, dataType, declared, element);
      return [element, [...declared]];
    }
    if (isArray || element === null || typeof element !== 'object') this.#refuse(`${place}: found ${show(element)}, allowed { data, shape }`);
    const { data } = element;
    const shape = element.shape ?? element.dims;
    this.#requireDataType(place, signature, element);
    this.#dimensions.requireShape(`${place}: shape`, shape);
    const isOne = isOneForScalar(declared, shape);
    if (!isOne) this.#dimensions.requireFit(place, declared, shape);
    requireArray(this.#operator, this.#label, place, dataType, shape, data);
    return [data, isOne ? [] : [...shape]];
  }

  /** Gives arrays without a shape the only one that they can have. */
  #infer() {
    let left = this.#unshaped;
    while (left.length > 0) {
      const open = left.filter((i) => !this.#inferShape(i));
      if (open.length === left.length) {
        const { name, shape, place } = this.#signatures[open[0]];
        this.#refuse(`${place}: found ${this.#values[name].length} elements, which several shapes ${text(shape)} have, allowed { data, shape }`);
      }
      left = open;
    }
  }

  /** Whether the shape of an array follows from what is known so far. */
  #inferShape(i) {
    const signature = this.#signatures[i];
    const array = this.#values[signature.name];
    const shape = this.#dimensions.solve(signature, array.length);
    if (shape === undefined) return false;
    this.#dimensions.requireCount(signature, array, shape);
    this.#dimensions.bind(signature, shape);
    this.#shapes[i] = shape;
    return true;
  }
}

/**
 * Checks the values for all inputs of a model.
 * @param {string} operator
 * @param {string} label
 * @param {Signature[]} signatures
 * @param {Record<string, unknown>} given
 * @param {Reading} reading
 * @returns {Given}
 */
function readInputs(operator, label, signatures, given, reading) {
  return new Reader(operator, label, signatures, reading).read(given);
}

/**
 * The shapes of all inputs in their order, of which a caller gives those that follow from no others; of a sequence a list of shapes.
 * @param {string} operator
 * @param {string} label
 * @param {Signature[]} signatures
 * @param {unknown} given
 * @returns {any[]}
 */
function solveShapes(operator, label, signatures, given) {
  if (given === null || typeof given !== 'object') throw typeError(operator, label, `found ${show(given)}, allowed shapes by the names of the inputs`);
  const known = new Set(signatures.map(({ name }) => name));
  const unknown = Object.keys(given).find((name) => !known.has(name));
  if (unknown !== undefined) throw typeError(operator, label, `found ${quote(unknown)}, allowed ${[...known].map(quote).join(', ')}`);
  const dimensions = new Dimensions(operator, label);
  for (const signature of signatures) {
    const { name, shape: declared, optional, sequence } = signature;
    if (!Object.hasOwn(given, name) || (optional && isNothing(given[name]))) continue;
    const shape = given[name];
    if (sequence) {
      requireShapes(operator, label, signature, shape, dimensions);
    } else {
      dimensions.requireShape(quote(name), shape);
      if (!isOneForScalar(declared, shape)) dimensions.bind(signature, shape);
    }
  }
  return signatures.map((signature) => {
    const { name, shape: declared, sequence, optional, buffer } = signature;
    if (optional && buffer === undefined && isNothing(given[name])) return undefined;
    if (Object.hasOwn(given, name)) {
      const own = (each) => (isOneForScalar(declared, each) ? [] : [...each]);
      return sequence ? given[name].map(own) : own(given[name]);
    }
    if (sequence) throw typeError(operator, label, `${quote(name)}: found no shapes, allowed an array of shapes, of a sequence's tensors`);
    return dimensions.follow(signature);
  });
}

/** Checks the shapes of a sequence's tensors. */
function requireShapes(operator, label, { name, shape: declared }, shapes, dimensions) {
  if (!Array.isArray(shapes) || !shapes.every(isShape)) {
    throw typeError(operator, label, `${quote(name)}: found ${show(shapes)}, allowed an array of shapes, of a sequence's tensors`);
  }
  shapes.forEach((each, position) => {
    if (!isOneForScalar(declared, each)) dimensions.requireFit(`${quote(name)}[${position}]`, declared, each);
  });
}

module.exports = { readInputs, solveShapes };
