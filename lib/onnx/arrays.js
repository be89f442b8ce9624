'use strict';

// Typed arrays for tensors of a model.

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { quote, show, viewName, withArticle } = require('../show.js');

const ARRAYS = {
  float32: Float32Array,
  float16: globalThis.Float16Array ?? Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  // Two elements share a byte.
  int4: Uint8Array,
  uint4: Uint8Array,
};

/** Other arrays that are taken as inputs. */
const ALSO = { float16: ['Uint16Array'], uint8: ['Uint8ClampedArray'], int4: ['Int8Array'] };

function elementCount(shape) {
  return shape.reduce((count, size) => count * size, 1);
}

/** The typed array over a tensor's bytes. */
function arrayOver(dataType, buffer) {
  return new ARRAYS[dataType](buffer);
}

/** Checks what a caller gave for an input. */
function checkArray(operator, label, { name, dataType, shape }, value) {
  const place = `inputs: ${quote(name)}`;
  const wanted = ARRAYS[dataType].name;
  if (!types.isTypedArray(value)) throw typeError(operator, label, `${place}: found ${show(value)}, allowed ${withArticle(wanted)}`);
  const found = viewName(value);
  if (found !== wanted && !ALSO[dataType]?.includes(found)) {
    throw typeError(operator, label, `${place}: found ${withArticle(found)}, allowed ${withArticle(wanted)} for ${dataType}`);
  }
  const count = elementCount(shape);
  const length = dataType.endsWith('int4') ? Math.ceil(count / 2) : count;
  if (value.length !== length) {
    throw typeError(operator, label, `${place}: found ${value.length} elements, allowed ${length} for the shape [${shape.join(', ')}]`);
  }
}

/**
 * The arrays for a model's inputs, checked; nothing may be missing or too much.
 * @param {{name: string, dataType: string, shape: number[]}[]} inputs
 */
function checkArrays(operator, label, inputs, given) {
  if (given === null || typeof given !== 'object') {
    throw typeError(operator, label, `inputs: found ${show(given)}, allowed an object with a typed array for each input`);
  }
  const names = Object.keys(given);
  const known = new Set(inputs.map(({ name }) => name));
  // Own properties only: an input can have the name of something that all objects inherit.
  const missing = inputs.filter(({ name, optional }) => !optional && !Object.hasOwn(given, name)).map(({ name }) => name);
  const unknown = names.filter((name) => !known.has(name));
  if (missing.length > 0 || unknown.length > 0) {
    const list = (all) => (all.length === 0 ? 'none' : all.map(quote).join(', '));
    throw typeError(operator, label, `inputs: found ${list(names)}, allowed exactly the model's inputs ${list([...known])}`);
  }
  for (const input of inputs) {
    if (Object.hasOwn(given, input.name) || !input.optional) checkArray(operator, label, input, given[input.name]);
  }
}

module.exports = { arrayOver, checkArray, checkArrays };
