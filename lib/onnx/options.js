'use strict';

// The options of run().

const { typeError } = require('../errors.js');
const { PRIORITIES } = require('../scheduling.js');
const { quote, show } = require('../show.js');
const { requireType } = require('./arrays.js');
const { requireSignal } = require('./watch.js');

/** A limit that a caller gave. */
function requireBytes(operator, label, maxBytes) {
  if (typeof maxBytes === 'number' && maxBytes >= 0) return maxBytes;
  throw typeError(operator, label, `options: maxBytes: found ${show(maxBytes)}, allowed a number of bytes`);
}

/** The most bytes that a model may hold. */
function requireMemoryLimit(operator, memoryLimit) {
  if (Number.isSafeInteger(memoryLimit) && memoryLimit >= 0) return memoryLimit;
  throw typeError(operator, '', `options: memoryLimit: found ${show(memoryLimit)}, allowed a whole number of bytes`);
}

/**
 * What a caller wants of a run.
 * @param {string} operator
 * @param {{label: string, outputs: import('./inputs.js').Signature[]}} model
 * @param {unknown} options
 * @returns {import('./model.js').RunOptions & {schedule?: import('../scheduling.js').Schedule}}
 */
function runOptions(operator, { label, outputs: signatures }, options) {
  if (options === undefined) return {};
  if (options === null || typeof options !== 'object') throw typeError(operator, label, `options: found ${show(options)}, allowed an object`);
  const { outputs, maxBytes, priority, seed, signal, timeout } = options;
  requireSignal(operator, label, signal);
  const schedule = { priority: readPriority(operator, label, priority), signal, timeout: requireTimeout(operator, label, timeout) };
  if (maxBytes !== undefined) requireBytes(operator, label, maxBytes);
  if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
    throw typeError(operator, label, `options: seed: found ${show(seed)}, allowed a whole number from 0`);
  }
  if (outputs === undefined) return { maxBytes, seed, schedule };
  const names = outputNames(operator, label, signatures, outputs);
  const places = Array.isArray(outputs) ? undefined : arraysOf(operator, label, signatures, outputs);
  return { wanted: new Set(names), places, maxBytes, seed, schedule };
}

/** The position of a priority, or nothing. */
function readPriority(operator, label, priority) {
  if (priority === undefined) return undefined;
  const position = PRIORITIES.indexOf(priority);
  if (position !== -1) return position;
  throw typeError(operator, label, `options: priority: found ${show(priority)}, allowed 'high', 'normal' or 'low'`);
}

function requireTimeout(operator, label, timeout) {
  if (timeout === undefined || (typeof timeout === 'number' && timeout >= 0 && Number.isFinite(timeout))) return timeout;
  throw typeError(operator, label, `options: timeout: found ${show(timeout)}, allowed a number of milliseconds from 0`);
}

/**
 * @param {string} operator
 * @param {{label: string}} model
 * @param {unknown} options
 * @returns {{signal?: AbortSignal}}
 */
function prepareOptions(operator, { label }, options) {
  if (options === undefined) return {};
  if (options === null || typeof options !== 'object') throw typeError(operator, label, `options: found ${show(options)}, allowed an object`);
  const { signal } = /** @type {any} */ (options);
  requireSignal(operator, label, signal);
  return { signal };
}

/** The names of the outputs that are wanted. */
function outputNames(operator, label, signatures, outputs) {
  if (outputs === null || typeof outputs !== 'object') {
    throw typeError(operator, label, `options: outputs: found ${show(outputs)}, allowed an array of names, or arrays by their names`);
  }
  const names = Array.isArray(outputs) ? outputs : Object.keys(outputs);
  const known = signatures.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined || names.length === 0) {
    const found = names.length === 0 ? 'no name' : typeof unknown === 'string' ? quote(unknown) : show(unknown);
    throw typeError(operator, label, `options: outputs: found ${found}, allowed ${known.map(quote).join(', ')}`);
  }
  return names;
}

/** The caller's arrays for outputs, by name. */
function arraysOf(operator, label, signatures, outputs) {
  const arrays = new Map(Object.entries(outputs).filter(([, array]) => array !== null && array !== undefined));
  for (const [name, array] of arrays) {
    const { dataType, sequence, optional } = signatures.find((signature) => signature.name === name);
    if (sequence || optional) {
      throw typeError(operator, label, `options: outputs: ${quote(name)}: found ${show(array)}, allowed null for a sequence or an optional value`);
    }
    if (dataType !== null) requireType(operator, label, `outputs: ${quote(name)}`, dataType, array);
  }
  return arrays;
}

/** Rows of a joined run, if the caller does not say how many. */
const MAX_SIZE = 16;
/** The most that a caller can ask for. */
const MOST = { maxSize: 1024, maxDelay: 60_000 };

/** @typedef {{maxSize: number, maxDelay: number, maxElements: number}} BatchingOptions */

/**
 * How runs are joined.
 * @param {string} operator
 * @param {unknown} options
 * @returns {BatchingOptions | undefined} nothing where they are not
 */
function batchingOptions(operator, options) {
  if (options === undefined || options === false) return undefined;
  const given = options === true ? {} : options;
  if (given === null || typeof given !== 'object') throw typeError(operator, '', `options: batching: found ${show(options)}, allowed an object or a boolean`);
  const { maxSize = MAX_SIZE, maxDelay = 0, maxElements = Infinity } = /** @type {any} */ (given);
  const isNumber = (value, least, most) => typeof value === 'number' && value >= least && value <= most;
  const check = (name, value, fits, allowed) => {
    if (!fits) throw typeError(operator, '', `options: batching: ${name}: found ${show(value)}, allowed ${allowed}`);
  };
  check('maxSize', maxSize, Number.isInteger(maxSize) && isNumber(maxSize, 2, MOST.maxSize), `a whole number from 2 to ${MOST.maxSize}`);
  check('maxDelay', maxDelay, isNumber(maxDelay, 0, MOST.maxDelay), `milliseconds from 0 to ${MOST.maxDelay}`);
  check('maxElements', maxElements, isNumber(maxElements, 1, Infinity), 'a number from 1');
  return { maxSize, maxDelay, maxElements };
}

module.exports = { batchingOptions, prepareOptions, readPriority, requireBytes, requireMemoryLimit, requireTimeout, runOptions };
