'use strict';

// Reads the options of InferenceSession.create(). Errors have onnxruntime-node's words, because programs may look for them. As there, a member with
// the value undefined has a wrong type, and unknown members are ignored.

const path = require('node:path');
const { types } = require('node:util');
const { folderOption } = require('../disk-cache.js');
const { batchingOptions } = require('../onnx/options.js');
const { quote, show } = require('../show.js');
const { printed } = require('./errors.js');

const invalid = (name, what) => new TypeError(`Invalid argument: sessionOptions.${name} must be ${what}.`);

/** Whether a number is a count of threads. */
const isCount = (value) => Number.isInteger(value) && value >= 0 && value <= 0xffffffff;

function count(value, name) {
  if (typeof value !== 'number') throw invalid(name, 'a number');
  if (!isCount(value)) throw new RangeError(`'${name}' is invalid: ${printed(value)}`);
  return value;
}

function boolean(value, name) {
  if (typeof value !== 'boolean') throw invalid(name, 'a boolean value');
  return value;
}

function string(value, name) {
  if (typeof value !== 'string') throw invalid(name, 'a string');
  return value;
}

function oneOf(allowed) {
  return (value, name) => {
    if (!allowed.includes(string(value, name))) throw new TypeError(`'${name}' is not supported: ${value}`);
    return value;
  };
}

/** 0 for everything to 4 for what ends the process. */
const severityOf = (options) => (value, name) => {
  if (typeof value !== 'number') throw new TypeError(`Invalid argument: ${options}.${name} must be a number.`);
  if (!Number.isInteger(value) || value < 0 || value > 4) {
    throw new RangeError(`Invalid argument: ${options}.${name} must be one of the following: 0, 1, 2, 3, 4.`);
  }
  return value;
};

/** Entries of the session's configuration, of which none changes anything here. */
function extra(value, name) {
  if (!isObject(value)) throw invalid(name, 'an object');
  for (const entry of Object.values(value)) {
    if (isObject(entry)) extra(entry, name);
    else if (typeof entry !== 'string') throw new TypeError('Invalid argument: sessionOptions.extra value must be a string in Node.js binding.');
  }
  return value;
}

/** Sizes for dimensions by their names. */
function freeDimensions(value, name) {
  if (value === null || value === undefined) return {};
  if (!isObject(value)) throw invalid(name, 'an object');
  for (const [key, size] of Object.entries(value)) {
    if (Number.isInteger(size) && size >= 0 && size < 2 ** 31) continue;
    throw new TypeError(`Invalid argument: sessionOptions.freeDimensionOverrides: ${quote(key)}: found ${show(size)}, allowed a whole number from 0 to 2147483647`);
  }
  return { ...value };
}

/**
 * Weights that are not in the model: bytes by the names that the model has for their files, or the paths of these files.
 * @returns {Map<string, Uint8Array | string>}
 */
function externalData(value, name) {
  const found = new Map();
  if (value === null || value === undefined) return found;
  if (!Array.isArray(value)) throw invalid(name, 'an array');
  const required = (what) => new TypeError(`Invalid argument: sessionOptions.externalData value must ${what} in Node.js binding.`);
  for (const entry of value) {
    if (typeof entry === 'string') {
      found.set(path.basename(entry), entry);
      continue;
    }
    if (!isObject(entry)) throw required('be an object');
    if (typeof entry.path !== 'string') throw required("have a 'path' property of type string");
    if (typeof entry.data !== 'string' && !types.isUint8Array(entry.data)) throw required("have an 'data' property of type buffer or typed array");
    found.set(entry.path, entry.data);
  }
  return found;
}

/** onnxruntime writes its file only with a prefix for the name. */
function profiling(value, name, options) {
  if (!boolean(value, name)) return false;
  const when = 'when sessionOptions.enableProfiling is set to true.';
  if (!('profileFilePrefix' in options)) throw new TypeError(`Invalid argument: sessionOptions.profileFilePrefix is required ${when}`);
  if (typeof options.profileFilePrefix !== 'string') {
    throw new TypeError(`Invalid argument: sessionOptions.profileFilePrefix must be a string. ${when}`);
  }
  return true;
}

/** Not an option of onnxruntime. */
function batching(value) {
  return batchingOptions('InferenceSession.create', value);
}

/** Not an option of onnxruntime. */
function cache(value) {
  return folderOption('InferenceSession.create', '', value);
}

function isObject(value) {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

/** In the order in which they are looked at. */
const OPTIONS = {
  intraOpNumThreads: count,
  interOpNumThreads: count,
  graphOptimizationLevel: oneOf(['disabled', 'basic', 'extended', 'layout', 'all']),
  enableCpuMemArena: boolean,
  enableMemPattern: boolean,
  optimizedModelFilePath: string,
  extra,
  executionMode: oneOf(['sequential', 'parallel']),
  logId: string,
  logSeverityLevel: severityOf('sessionOptions'),
  enableProfiling: profiling,
  externalData,
  freeDimensionOverrides: freeDimensions,
  batching,
  cache,
};

/**
 * @param {object} options
 * @returns {Record<string, any>} those that are present, checked
 */
function sessionOptions(options) {
  const found = {};
  for (const [name, check] of Object.entries(OPTIONS)) if (name in options) found[name] = check(options[name], name, options);
  if (found.enableProfiling) found.profileFilePrefix = options.profileFilePrefix;
  return found;
}

const LOCATIONS = ['cpu', 'cpu-pinned', 'texture', 'gpu-buffer', 'ml-tensor'];

/**
 * Where outputs are wanted: a location for all, or one for each.
 * @param {object} options
 * @param {readonly string[]} outputNames
 * @returns {Map<string, string>} for outputs that stay on the device
 */
function outputLocations(options, outputNames) {
  const found = new Map();
  const value = options.preferredOutputLocation;
  if (value === null || value === undefined) return found;
  const keep = (name, location) => {
    if (location === 'gpu-buffer' || location === 'ml-tensor') found.set(name, location);
  };
  if (!isObject(value)) {
    if (!LOCATIONS.includes(value)) throw new TypeError('Invalid argument: preferredOutputLocation must be an array or a valid string.');
    for (const name of outputNames) keep(name, value);
    return found;
  }
  for (const name of Object.keys(value)) {
    if (!outputNames.includes(name)) throw new TypeError(`Invalid argument: "${name}" is not a valid output name.`);
    if (!LOCATIONS.includes(value[name])) throw new TypeError(`Invalid argument: preferredOutputLocation["${name}"] must be a valid string.`);
    keep(name, value[name]);
  }
  return found;
}

module.exports = { isObject, outputLocations, sessionOptions, severityOf };
