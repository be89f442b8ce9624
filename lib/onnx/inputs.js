'use strict';

// What a caller gives for a model's inputs: arrays with their shapes, checked against what the model takes.

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');
const { elementCount, requireArray, requireType } = require('./arrays.js');
const { keptOf } = require('./kept.js');
const { Named } = require('./named.js');
const { isShape } = require('./tensor.js');

/**
 * Of a sequence the data type and the shape are those of its elements.
 * @typedef {{name: string, dataType: string, type: string, shape: (number | string)[] | null, optional?: boolean, sequence?: boolean,
 *   place?: string}} Signature `place` is what messages call it, as soon as an input was read
 */

/** Longer ones are not shown in messages. */
const MOST_LISTED = 16;

/** A name that stands for one size everywhere. Some writers call every dimension "?", and others by its place. */
const isName = (name) => /^[A-Za-z_]\w*$/.test(name);

/** What is no shape. */
const listed = (shape) => (Array.isArray(shape) && shape.length <= MOST_LISTED ? `[${shape.map(show).join(', ')}]` : show(shape));

const text = (shape) => (shape === null ? 'one of any rank' : `[${shape.join(', ')}]`);

/** Whether these are the names of all inputs, in their order. */
function areNames(names, signatures) {
  if (names.length !== signatures.length) return false;
  for (let i = 0; i < names.length; i++) if (names[i] !== signatures[i].name) return false;
  return true;
}

/** Checks that there is exactly what the model takes. */
function checkNames(operator, label, signatures, given) {
  if (given === null || typeof given !== 'object') {
    throw typeError(operator, label, `inputs: found ${show(given)}, allowed an object with a value for each input`);
  }
  const names = Object.keys(given);
  if (areNames(names, signatures)) return;
  const known = new Set(signatures.map(({ name }) => name));
  // Own properties only: an input can have the name of something that all objects inherit.
  const isMissing = ({ name, optional }) => !optional && !Object.hasOwn(given, name);
  if (signatures.some(isMissing) || names.some((name) => !known.has(name))) {
    const list = (all) => (all.length === 0 ? 'none' : all.map(quote).join(', '));
    throw typeError(operator, label, `inputs: found ${list(names)}, allowed exactly the model's inputs ${list([...known])}`);
  }
}

/**
 * The arrays by their names, and the shapes of all inputs in their order: lists of them for a sequence, and undefined for an optional value
 * without content.
 * @param {string} operator
 * @param {string} label
 * @param {Signature[]} signatures
 * @param {Record<string, unknown>} given
 * @param {Record<string, ArrayBufferView> | undefined} defaults of inputs that need not be passed
 * @param {boolean} [keeps] whether elements that nobody has looked at may stay where they are
 * @param {(value: unknown) => boolean} [isTensor] tells MLTensors, where these are taken too
 * @returns {{arrays: Record<string, any>, shapes: any[]}} arrays, elements that are kept, and MLTensors
 */
function readInputs(operator, label, signatures, given, defaults, keeps = false, isTensor = () => false) {
  checkNames(operator, label, signatures, given);
  const arrays = new Named();
  const shapes = new Array(signatures.length);
  /** What names stand for, and the input that says so. */
  const sizes = new Map();
  const unshaped = [];
  for (let i = 0; i < signatures.length; i++) {
    const signature = signatures[i];
    const { name, dataType } = signature;
    const place = (signature.place ??= `inputs: ${quote(name)}`);
    const passed = Object.hasOwn(given, name) || !signature.optional;
    const value = passed ? given[name] : defaults?.[name];
    if (signature.optional && isNothing(value) && defaults?.[name] === undefined) {
      arrays[name] = shapes[i] = undefined;
      continue;
    }
    if (signature.sequence) {
      [arrays[name], shapes[i]] = readSequence(operator, label, signature, value);
      continue;
    }
    if (types.isTypedArray(value) || value === null || typeof value !== 'object') {
      requireType(operator, label, place, dataType, value);
      arrays[name] = value;
      if (isKnown(signature.shape)) {
        requireArray(operator, label, place, dataType, signature.shape, value);
        shapes[i] = signature.shape;
      } else unshaped.push(i);
      continue;
    }
    if (!isTensor(value) && !('data' in value)) {
      throw typeError(operator, label, `${place}: found ${show(value)}, allowed a typed array or { data, shape }`);
    }
    const shape = value.shape ?? value.dims;
    const isOne = !isTensor(value) && isOneForScalar(signature.shape, shape);
    const kept = keeps && !isOne ? keptOf(value, shape) : undefined;
    const isWhole = kept === undefined && !isTensor(value);
    const array = kept ?? (isWhole ? value.data : value);
    const type = value.dataType ?? value.type;
    if (type !== undefined && type !== dataType && type !== signature.type) {
      throw typeError(operator, label, `${place}: found ${show(type)}, allowed ${quote(dataType)}`);
    }
    if (!isShape(shape)) throw typeError(operator, label, `${place}: shape: found ${listed(shape)}, allowed an array of sizes`);
    if (!isOne) bindSizes(operator, label, signature, shape, sizes);
    if (isWhole) requireArray(operator, label, place, dataType, shape, array);
    arrays[name] = array;
    shapes[i] = isOne ? [] : [...shape];
  }
  infer(operator, label, signatures, arrays, shapes, sizes, unshaped);
  return { arrays, shapes };
}

const isNothing = (value) => value === undefined || value === null;

/** The arrays and the shapes of a sequence's tensors. Names of dimensions may stand for another size in each. */
function readSequence(operator, label, signature, list) {
  const { name, dataType, shape: declared } = signature;
  const place = `inputs: ${quote(name)}`;
  if (!Array.isArray(list)) throw typeError(operator, label, `${place}: found ${show(list)}, allowed an array of tensors { data, shape }`);
  const shapes = [];
  const arrays = Array.from(list, (element, position) => {
    const at = `${place}[${position}]`;
    if (types.isTypedArray(element) && isKnown(declared)) {
      requireArray(operator, label, at, dataType, declared, element);
      shapes.push([...declared]);
      return element;
    }
    if (element === null || typeof element !== 'object' || types.isTypedArray(element)) {
      throw typeError(operator, label, `${at}: found ${show(element)}, allowed { data, shape }`);
    }
    const { data } = element;
    const shape = element.shape ?? element.dims;
    const type = element.dataType ?? element.type;
    if (type !== undefined && type !== dataType && type !== signature.type) {
      throw typeError(operator, label, `${at}: found ${show(type)}, allowed ${quote(dataType)}`);
    }
    if (!isShape(shape)) throw typeError(operator, label, `${at}: shape: found ${listed(shape)}, allowed an array of sizes`);
    const isOne = isOneForScalar(declared, shape);
    if (!isOne) requireFit(operator, label, at, declared, shape);
    requireArray(operator, label, at, dataType, shape, data);
    shapes.push(isOne ? [] : [...shape]);
    return data;
  });
  return [arrays, shapes];
}

const isKnown = (shape) => shape !== null && shape.every((size) => typeof size === 'number');

/** Whether a shape stands for the scalar that an input declares: programs feed `[1]` where exporters have written `[]`. */
const isOneForScalar = (declared, shape) => declared?.length === 0 && isShape(shape) && shape.every((size) => size === 1);

/** Holds a shape against what the input declares. */
function requireFit(operator, label, place, declared, shape) {
  if (declared === null) return;
  const fits = shape.length === declared.length && declared.every((size, axis) => typeof size !== 'number' || size === shape[axis]);
  if (!fits) throw typeError(operator, label, `${place}: found the shape ${text(shape)}, allowed ${text(declared)}`);
}

/** Holds a shape against what the input declares, and names against what other inputs say. */
function bindSizes(operator, label, { name, shape: declared }, shape, sizes) {
  if (declared === null) return;
  const place = `inputs: ${quote(name)}`;
  requireFit(operator, label, place, declared, shape);
  declared.forEach((size, axis) => {
    if (typeof size === 'number' || !isName(size)) return;
    const known = sizes.get(size);
    if (known === undefined) sizes.set(size, { size: shape[axis], by: name });
    else if (known.size !== shape[axis]) {
      const others = known.by === name ? 'the same input' : quote(known.by);
      throw typeError(
        operator,
        label,
        `${place}: found ${shape[axis]} for the dimension ${quote(size)}, in the shape ${text(shape)}, allowed ${known.size}, which ${others} has`,
      );
    }
  });
}

/** Gives arrays without a shape the only one that they can have. */
function infer(operator, label, signatures, arrays, shapes, sizes, unshaped) {
  let left = unshaped;
  while (left.length > 0) {
    const open = left.filter((i) => {
      const signature = signatures[i];
      const shape = solve(signature, arrays[signature.name].length, sizes);
      if (shape === undefined) return true;
      requireCount(operator, label, signature, arrays[signature.name], shape, sizes);
      bindSizes(operator, label, signature, shape, sizes);
      shapes[i] = shape;
      return false;
    });
    if (open.length === left.length) {
      const { name, shape } = signatures[open[0]];
      throw typeError(operator, label, `inputs: ${quote(name)}: found ${arrays[name].length} elements, which several shapes ${text(shape)} have, allowed { data, shape }`);
    }
    left = open;
  }
}

/** Holds an array against the shape that follows for it; where other inputs have said sizes, the error names them. */
function requireCount(operator, label, { name, dataType, shape: declared }, array, shape, sizes) {
  const place = `inputs: ${quote(name)}`;
  const known = declared.filter((size) => typeof size === 'string' && isName(size) && sizes.has(size));
  const count = elementCount(shape);
  if (known.length > 0 && array.length !== count && !dataType.endsWith('int4')) {
    const because = [...new Set(known)].map((size) => `${quote(size)} is ${sizes.get(size).size} in ${quote(sizes.get(size).by)}`);
    throw typeError(operator, label, `${place}: found ${array.length} elements, allowed ${count} for the shape ${text(shape)}, since ${because.join(', ')}`);
  }
  requireArray(operator, label, place, dataType, shape, array);
}

/** The shape of so many elements, where that is the only one. */
function solve({ dataType, shape }, length, sizes) {
  if (shape === null) return undefined;
  const known = shape.map((size) => (typeof size === 'number' ? size : isName(size) ? sizes.get(size)?.size : undefined));
  const open = shape.filter((_, axis) => known[axis] === undefined);
  if (open.length === 0) return known;
  if (open.length > 1 || dataType.endsWith('int4')) return undefined;
  const rest = elementCount(known.filter((size) => size !== undefined));
  if (rest === 0) return undefined;
  // What does not divide is refused for its number of elements.
  const size = Math.ceil(length / rest);
  return known.map((other) => other ?? size);
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
  const sizes = new Map();
  for (const signature of signatures) {
    if (!Object.hasOwn(given, signature.name)) continue;
    const shape = given[signature.name];
    if (signature.optional && isNothing(shape)) continue;
    if (signature.sequence) {
      if (!Array.isArray(shape) || !shape.every(isShape)) {
        throw typeError(operator, label, `${quote(signature.name)}: found ${show(shape)}, allowed an array of shapes, of a sequence's tensors`);
      }
      shape.forEach((each, position) => {
        if (!isOneForScalar(signature.shape, each)) requireFit(operator, label, `${quote(signature.name)}[${position}]`, signature.shape, each);
      });
      continue;
    }
    if (!isShape(shape)) throw typeError(operator, label, `${quote(signature.name)}: found ${listed(shape)}, allowed an array of sizes`);
    if (!isOneForScalar(signature.shape, shape)) bindSizes(operator, label, signature, shape, sizes);
  }
  return signatures.map(({ name, shape, sequence, optional, buffer }) => {
    if (optional && buffer === undefined && isNothing(given[name])) return undefined;
    if (Object.hasOwn(given, name)) {
      const own = (each) => (isOneForScalar(shape, each) ? [] : [...each]);
      return sequence ? given[name].map(own) : own(given[name]);
    }
    if (sequence) throw typeError(operator, label, `${quote(name)}: found no shapes, allowed an array of shapes, of a sequence's tensors`);
    if (shape === null) throw typeError(operator, label, `${quote(name)}: found no shape, allowed ${text(shape)}`);
    return shape.map((size) => {
      const found = typeof size === 'number' ? size : isName(size) ? sizes.get(size)?.size : undefined;
      if (found === undefined) throw typeError(operator, label, `${quote(name)}: found no shape, allowed one like ${text(shape)}`);
      return found;
    });
  });
}

module.exports = { isKnown, isName, readInputs, solveShapes };
