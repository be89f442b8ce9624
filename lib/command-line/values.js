'use strict';

// Makes the values of inputs, and summarizes those of outputs.

const { readFileSync } = require('node:fs');
const { ARRAYS } = require('../onnx/arrays.js');
const { readNpy } = require('./npy.js');
const { generator, halfValue } = require('./numbers.js');
const { Usage } = require('./options.js');

/** Floats from -1 to 1; integers 0 or 1, which are valid as indices and as masks. */
function randomArray({ dataType, shape }, random) {
  const TypedArray = ARRAYS[dataType];
  const array = new TypedArray(elementCount({ dataType, shape }));
  const wide = dataType.endsWith('int64');
  for (let i = 0; i < array.length; i++) {
    const value = random();
    if (dataType === 'float32') array[i] = 2 * value - 1;
    else if (dataType === 'float16') array[i] = TypedArray === Uint16Array ? (value < 0.5 ? 0x3400 : 0xb400) : 2 * value - 1;
    else array[i] = wide ? BigInt(Math.round(value)) : Math.round(value);
  }
  return array;
}

/** How many elements an array for such a tensor has. */
function elementCount({ dataType, shape }) {
  const count = shape.reduce((product, size) => product * size, 1);
  return dataType.endsWith('int4') ? Math.ceil(count / 2) : count;
}

/** One number for all elements. */
function numberArray({ name, dataType, shape }, text) {
  const TypedArray = ARRAYS[dataType];
  const whole = !dataType.startsWith('float');
  if ((whole && !/^-?\d+$/.test(text)) || dataType.endsWith('int4')) throw new Usage(`${name}=${text}: no value for ${dataType}`);
  const value = dataType.endsWith('int64') ? BigInt(text) : TypedArray === Uint16Array ? halfBits(Number(text)) : Number(text);
  return new TypedArray(elementCount({ dataType, shape })).fill(value);
}

/** Whether a shape stands for a scalar. */
const isOneForScalar = (declared, shape) => declared.length === 0 && shape.every((size) => size === 1);

/** The array of a file, whose name goes into what is wrong with it. */
function readArray(file) {
  const bytes = readFileSync(file);
  try {
    return readNpy(bytes);
  } catch (error) {
    throw new Error(`${file}: ${error.message}`, { cause: error });
  }
}

function fileArray({ name, dataType, shape }, file) {
  const found = readArray(file);
  if (found.dataType !== dataType || (`${found.shape}` !== `${shape}` && !isOneForScalar(shape, found.shape))) {
    throw new Usage(`--input ${name}=${file}: found ${found.dataType}[${found.shape.join(', ')}], allowed ${dataType}[${shape.join(', ')}]`);
  }
  return found.array;
}

/**
 * The scalars without a given value: a model may not accept every number for them.
 * @param {{name: string, dataType: string, shape: number[]}[]} signatures
 * @param {[string, string][]} given
 */
function madeUpScalars(signatures, given) {
  const named = new Set(given.map(([name]) => name));
  return signatures.filter(({ name, shape }) => shape.length === 0 && !named.has(name));
}

/**
 * @param {{name: string, dataType: string, shape: number[]}[]} signatures
 * @param {[string, string][]} given pairs of a name and a file, or "random"
 */
function makeInputs(signatures, given, seed) {
  const random = generator(seed);
  const files = new Map(given);
  const unknown = [...files.keys()].find((name) => !signatures.some((signature) => signature.name === name));
  if (unknown !== undefined) throw new Usage(`--input ${unknown}: the model's inputs are ${signatures.map(({ name }) => name).join(', ')}`);
  return Object.fromEntries(
    signatures.map((signature) => {
      const from = files.get(signature.name) ?? 'random';
      if (from === 'random') return [signature.name, randomArray(signature, random)];
      return [signature.name, isNumber(from) ? numberArray(signature, from) : fileArray(signature, from)];
    }),
  );
}

const isNumber = (text) => Number.isFinite(Number(text));

/** Refuses a shape of another rank, or of other sizes than the model fixes. */
function refuseOther(name, allowed, found) {
  if (found.length === allowed.length && allowed.every((size, axis) => typeof size !== 'number' || size === found[axis])) return;
  throw new Usage(`--shape ${name}=${found.join('x')}: found [${found.join(', ')}], allowed [${allowed.join(', ')}]`);
}

/**
 * The inputs with the shapes that they are given: by --shape, by a file, or by the names that other inputs' dimensions have.
 * @param {{name: string, dataType: string, shape: (number | string)[]}[]} signatures
 * @param {[string, string][]} given
 * @param {Record<string, number[]>} shapes
 */
function shapedInputs(signatures, given, shapes) {
  const sequence = signatures.find((signature) => signature.sequence);
  if (sequence !== undefined) throw new Usage(`the input ${sequence.name} is a sequence of tensors, which the command line cannot create`);
  const unknown = Object.keys(shapes).find((name) => !signatures.some((signature) => signature.name === name));
  if (unknown !== undefined) throw new Usage(`--shape ${unknown}: the model's inputs are ${signatures.map(({ name }) => name).join(', ')}`);
  const files = given.filter(([, from]) => from !== 'random' && !isNumber(from));
  const known = new Map();
  const own = new Map();
  for (const { name, shape } of signatures) {
    const file = files.find(([input]) => input === name)?.[1];
    if (shapes[name] !== undefined && shape !== null && !isOneForScalar(shape, shapes[name])) refuseOther(name, shape, shapes[name]);
    const sizes = shapes[name] ?? (file === undefined ? undefined : readArray(file).shape);
    // Another rank is an error that says more when the array is compared with the input.
    if (sizes === undefined || (shape !== null && sizes.length !== shape.length)) continue;
    own.set(name, sizes);
    shape?.forEach((dimension, axis) => {
      if (typeof dimension !== 'string') return;
      const other = known.get(dimension);
      if (other !== undefined && other !== sizes[axis]) {
        throw new Usage(`--input ${name}: found ${sizes[axis]} for the dimension ${dimension}, allowed ${other}, which another input has`);
      }
      known.set(dimension, sizes[axis]);
    });
  }
  return signatures.map((signature) => {
    if (signature.shape === null) {
      const sizes = own.get(signature.name);
      if (sizes === undefined) throw new Usage(`the input ${signature.name} may have any shape: pass one, such as --shape ${signature.name}=1x1`);
      return { ...signature, shape: [...sizes] };
    }
    const shape = signature.shape.map((dimension, axis) => {
      const size = typeof dimension === 'number' ? dimension : (own.get(signature.name)?.[axis] ?? known.get(dimension));
      if (size === undefined) {
        throw new Usage(`the input ${signature.name} has the shape [${signature.shape.join(', ')}]: pass one, such as --shape ${signature.name}=${signature.shape.map((part) => (typeof part === 'number' ? part : 1)).join('x')}`);
      }
      return size;
    });
    return { ...signature, shape };
  });
}

/**
 * Values that a model is loaded for: files, or numbers, which get the type of the input.
 * @param {[string, string][]} given
 * @param {Record<string, number>} dimensions
 * @param {() => Promise<{inputs: {name: string, dataType: string, shape: string[] | null}[]}>} inspect
 */
async function makeConstants(given, dimensions, inspect) {
  const inputs = given.some(([, text]) => isNumber(text)) ? (await inspect()).inputs : [];
  const constants = given.map(([name, text]) => {
    if (!isNumber(text)) return [name, readArray(text).array];
    const input = inputs.find((candidate) => candidate.name === name);
    if (input === undefined) throw new Usage(`--constant ${name}: the model's inputs are ${inputs.map((known) => known.name).join(', ')}`);
    const size = (dimension, axis) => dimensions[`${name}:${axis}`] ?? dimensions[dimension] ?? Number(dimension);
    return [name, numberArray({ ...input, shape: (input.shape ?? []).map(size) }, text)];
  });
  return Object.fromEntries(constants);
}

/** The bits of the float16 nearest to a number, by way of float32. */
function halfBits(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return (bits >>> 16) & 0x8000;
  if (exponent >= 31) return ((bits >>> 16) & 0x8000) | 0x7c00;
  return ((bits >>> 16) & 0x8000) | ((exponent << 10) + ((((bits >>> 12) & 0x7ff) + 1) >>> 1));
}

/** The least, the greatest and the mean value, how many are no finite number, and the first few. */
function summarize(array, dataType) {
  let [least, greatest, sum, finite] = [Infinity, -Infinity, 0, 0];
  const halves = dataType === 'float16' && array instanceof Uint16Array;
  const value = (i) => (halves ? halfValue(array[i]) : Number(array[i]));
  for (let i = 0; i < array.length; i++) {
    const number = value(i);
    if (!Number.isFinite(number)) continue;
    finite++;
    sum += number;
    if (number < least) least = number;
    if (number > greatest) greatest = number;
  }
  return {
    min: finite > 0 ? least : null,
    max: finite > 0 ? greatest : null,
    mean: finite > 0 ? sum / finite : null,
    notFinite: array.length - finite,
    first: Array.from({ length: Math.min(array.length, 6) }, (_, i) => value(i)),
  };
}

module.exports = { madeUpScalars, shapedInputs, makeConstants, makeInputs, summarize };
