'use strict';

// loadOnnx(): the file is read in the background, and imported and compiled there if its shapes are known.

const { types } = require('node:util');
const native = require('../native.js');
const { toContext } = require('../context.js');
const { traced } = require('../diagnostics.js');
const { folderOption } = require('../disk-cache.js');
const { CONTEXT_LOST, conversionError, invalidState, typeError } = require('../errors.js');
const { fpMathOption } = require('../fp-math.js');
const { process } = require('../globals.js');
const { begin } = require('../settle.js');
const { quote, show, viewName } = require('../show.js');
const { emitWarning } = require('../warnings.js');
const { argument } = require('../webidl.js');
const { externalIntegrityOf, integrityOf } = require('./integrity.js');
const { Model } = require('./model.js');
const { createOnnxModel } = require('./onnx-model.js');
const { batchingOptions, requireBytes, requireMemoryLimit } = require('./options.js');
const { Progress } = require('./progress.js');
const { refusal } = require('./refusal.js');
const { findExternal, findSource } = require('./source.js');
const { receiveAll } = require('./stream.js');
const { loadWatched, requireSignal } = require('./watch.js');

const NAME = 'loadOnnx';

/**
 * @param {import('../../index.d.ts').MLContext} context
 * @param {import('../onnx.d.ts').OnnxSource} source
 * @param {import('../onnx.d.ts').OnnxLoadOptions} [options]
 */
async function loadOnnx(context, source, options = {}) {
  let state;
  try {
    state = argument('context', context, toContext);
  } catch (error) {
    throw conversionError(error, NAME);
  }
  const own = findSource(NAME, source);
  const checked = requireObject('options', options);
  const { freeDimensions = {}, constants = {}, overridable = [], maxBytes, memoryLimit, fpMath, label = '', integrity, batching, signal, onProgress, cache, map = false, externalData, externalIntegrity } = checked;
  const external = findExternal(NAME, externalData);
  const settings = {
    sizes: requireSizes(freeDimensions),
    constants: requireConstants(constants),
    overridable: requireNames(overridable),
    maxBytes: maxBytes === undefined ? undefined : requireBytes(NAME, '', maxBytes),
    memoryLimit: memoryLimit === undefined ? undefined : requireMemoryLimit(NAME, memoryLimit),
    fpMath: fpMathOption(NAME, '', fpMath),
    digests: integrityOf(NAME, integrity),
    externalDigests: externalIntegrityOf(NAME, externalIntegrity),
    batching: batchingOptions(NAME, batching),
    cache: folderOption(NAME, '', cache),
    map: Boolean(map),
  };
  requireSignal(NAME, '', signal);
  requireFunction('onProgress', onProgress);
  if (state.lost) throw invalidState(NAME, label, CONTEXT_LOST);
  signal?.throwIfAborted();
  const progress = new Progress(onProgress, signal);
  const [from, ...others] = await origins([own, ...external.values()], `${label}`, { signal, progress, state });
  const describe = () => ({ operator: NAME, label: `${label}`, device: state.device, file: typeof from === 'string' ? from : undefined });
  const opened = async (watch, life) => {
    const given = new Map([...external.keys()].map((location, i) => [location, others[i]]));
    const file = await open(state, `${label}`, from, { ...settings, external: given, watch, progress });
    progress.look(file.handle);
    return createOnnxModel(await modelOf(context, state, `${label}`, file, { batching: settings.batching, life }));
  };
  return await loadWatched(signal, (watch, life) => traced('load', describe, () => progress.during(() => opened(watch, life))));
}

/**
 * What the native side takes: of streams the handles of their bytes, once all have arrived.
 * @param {import('./source.js').Found[]} sources
 * @param {string} label
 * @param {{signal?: AbortSignal, progress: Progress, state: import('../states').ContextState}} options
 */
async function origins(sources, label, { signal, progress, state }) {
  const streams = sources.flatMap(({ stream }) => (stream === undefined ? [] : [stream]));
  if (streams.length === 0) return sources.map(({ origin }) => origin);
  const received = await receiveAll(NAME, label, streams, { signal, progress });
  if (state.lost) {
    for (const handle of received) native.dropReceived(handle);
    throw invalidState(NAME, label, CONTEXT_LOST);
  }
  return sources.map(({ origin }) => origin ?? received.shift());
}

/**
 * Has a model read.
 * @param {import('../states').ContextState} context
 * @param {string} label
 * @param {string | object | number} origin a path, bytes that Node-API takes, or the handle of bytes that were received
 * @param {object} settings
 * @param {Record<string, number>} settings.sizes of open dimensions
 * @param {Record<string, ArrayBufferView>} [settings.constants] by the names of inputs
 * @param {string[]} [settings.overridable] inputs
 * @param {number} [settings.maxBytes]
 * @param {number} [settings.memoryLimit]
 * @param {Map<string, string | object | number>} [settings.external] files by their locations
 * @param {boolean} [settings.outline] whether the model is imported to infer its outputs
 * @param {string} [settings.fpMath]
 * @param {import('./integrity.js').Digests} [settings.digests] what the model's bytes must have one of
 * @param {(string | import('./integrity.js').Digests)[]} [settings.externalDigests] what external data must have one of, by locations
 * @param {string} [settings.cache] the folder of packed weights; '' for none
 * @param {boolean} [settings.map] whether files are mapped
 * @param {number} [settings.watch]
 * @param {Progress} [settings.progress]
 */
async function open(context, label, origin, settings) {
  const { sizes, constants = {}, overridable = [], maxBytes = -1, external = new Map(), outline = false, fpMath = '', digests = [], externalDigests, memoryLimit = -1, cache = '', map = false, watch = 0, progress } = settings;
  let handle;
  const entry = { operator: NAME, label, context, arrive: (opened) => opened, fail: () => native.closeOnnx(handle) };
  const arrays = Object.values(constants);
  const opened = await begin(entry, (request) => {
    handle = native.openOnnx(
      ...[request, context.handle, origin, Object.keys(sizes), Object.values(sizes), label],
      ...[Object.keys(constants), arrays.map(viewName), arrays, overridable, maxBytes],
      ...[[...external.keys()], [...external.values()], outline, fpMath, digests, externalDigests, memoryLimit, cache, map, watch],
    );
    progress?.follow(handle);
  });
  return { handle, opened };
}

/**
 * A model for the interface of onnxruntime: without a limit, with inferred outputs. Sizes for names that the
 * model does not have are ignored.
 * @param {any} context
 * @param {string | object} source a path, or bytes that Node-API takes
 * @param {{sizes: Record<string, number>, external: Map<string, string | object>, batching?: import('./options.js').BatchingOptions, cache?: string}} options
 */
function openModel(context, source, { sizes, external, batching, cache }) {
  const state = toContext(context);
  const describe = () => ({ operator: NAME, label: '', device: state.device, file: typeof source === 'string' ? source : undefined });
  return traced('load', describe, () => openChecked(context, state, source, { sizes, external, batching, cache }));
}

async function openChecked(context, state, source, { sizes, external, batching, cache }) {
  const read = (all) => open(state, '', source, { sizes: all, maxBytes: Infinity, external, outline: true, cache });
  let file = await read({});
  const known = new Set(file.opened.inputs.flatMap(([, , shape]) => shape ?? []));
  const meant = Object.entries(sizes).filter(([name]) => known.has(name));
  if (meant.length > 0) {
    native.closeOnnx(file.handle);
    file = await read(Object.fromEntries(meant));
  }
  return modelOf(context, state, '', file, { anyScalars: true, batching });
}

/**
 * The model of a file, with its plan if all shapes are known.
 * @param {any} context
 * @param {import('../states').ContextState} contextState
 * @param {string} label
 * @param {{handle: number, opened: any}} file
 * @param {object} settings
 * @param {boolean} [settings.anyScalars] whether what is declared as a scalar may be given any shape
 * @param {import('./options.js').BatchingOptions} [settings.batching]
 * @param {import('./watch.js').Life} [settings.life]
 */
async function modelOf(context, contextState, label, { handle, opened }, { anyScalars = false, batching, life }) {
  if (opened.refused.length > 0) {
    native.closeOnnx(handle);
    throw refusal(NAME, opened.refused, label);
  }
  if (opened.slowProducts > 0 && contextState.device === 'cpu') warnOfSlowProducts(opened.slowProducts);
  const model = new Model(context, contextState, handle, label, opened);
  try {
    if (batching !== undefined) await model.joinRuns(batching);
    await model.planKnownShapes(NAME, anyScalars, life);
  } catch (error) {
    model.destroy();
    throw error;
  }
  return model;
}

function warnOfSlowProducts(count) {
  const lacking = process.arch === 'arm64' ? 'dotprod' : 'AVX-512 VNNI';
  emitWarning('WEBNN_NO_VNNI', `the model has ${count} products of 8-bit integers, for which this CPU has no instructions (${lacking}): they are computed in 16 bits`);
}

function requireObject(name, value) {
  if (value !== null && typeof value === 'object') return value;
  throw typeError(NAME, '', `${name}: found ${show(value)}, allowed an object`);
}

function requireFunction(name, value) {
  if (value === undefined || typeof value === 'function') return;
  throw typeError(NAME, '', `options: ${name}: found ${show(value)}, allowed a function`);
}

/** Sizes of open dimensions. */
function requireSizes(freeDimensions) {
  const entries = Object.entries(requireObject('options.freeDimensions', freeDimensions));
  for (const [name, size] of entries) {
    if (Number.isInteger(size) && size >= 0 && size < 2 ** 31) continue;
    throw typeError(NAME, '', `options: freeDimensions: ${quote(name)}: found ${show(size)}, allowed a whole number from 0 to 2147483647`);
  }
  return Object.fromEntries(entries);
}

/** Values for inputs; their types are checked where the model is read. */
function requireConstants(constants) {
  const entries = Object.entries(requireObject('options.constants', constants));
  for (const [name, array] of entries) {
    if (types.isTypedArray(array)) continue;
    throw typeError(NAME, '', `argument 'options': constants: ${quote(name)}: found ${show(array)}, allowed a typed array`);
  }
  return Object.fromEntries(entries);
}

/** Names of inputs that have a value in the file and may be passed all the same. */
function requireNames(overridable) {
  if (Array.isArray(overridable) && overridable.every((name) => typeof name === 'string')) return overridable;
  throw typeError(NAME, '', `options: overridable: found ${show(overridable)}, allowed an array of names`);
}

module.exports = { loadOnnx, openModel };
