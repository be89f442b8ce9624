'use strict';

// loadOnnx(): the file is read in the background, and imported and compiled there if its shapes are known.

const { types } = require('node:util');
const native = require('../native.js');
const { toContext } = require('../context.js');
const { dataTypes } = require('../descriptor.js');
const { conversionError, invalidState, typeError } = require('../errors.js');
const { fpMathOption } = require('../fp-math.js');
const { begin } = require('../settle.js');
const { quote, show, viewName } = require('../show.js');
const { argument } = require('../webidl.js');
const { isKnown } = require('./inputs.js');
const { createModel, modelState } = require('./model.js');
const { requireBytes } = require('./options.js');
const { Plans, keyOf } = require('./plans.js');
const { refusal } = require('./refusal.js');
const { modelSource } = require('./source.js');

const NAME = 'loadOnnx';

/**
 * @param {import('../../index.d.ts').MLContext} context
 * @param {string | URL | BufferSource} source
 * @param {{freeDimensions?: Record<string, number>, constants?: Record<string, ArrayBufferView>, overridable?: string[], maxBytes?: number, fpMath?: 'strict' | 'bf16', label?: string}} [options]
 */
async function loadOnnx(context, source, options = {}) {
  let state;
  try {
    state = argument('context', context, toContext);
  } catch (error) {
    throw conversionError(error, NAME);
  }
  const origin = modelSource(NAME, source);
  const { freeDimensions = {}, constants = {}, overridable = [], maxBytes, fpMath, label = '' } = requireObject('options', options);
  const { names, sizes } = dimensions(freeDimensions);
  const { inputs, arrays, values } = constantInputs(constants);
  const defaulted = overridableInputs(overridable);
  // None is told by a negative number.
  const most = maxBytes === undefined ? -1 : requireBytes(NAME, '', maxBytes);
  const math = fpMathOption(NAME, '', fpMath);
  if (state.lost) throw invalidState(NAME, label, 'the MLContext was destroyed or lost');
  const { handle, opened } = await open(state, `${label}`, origin, [names, sizes], [inputs, arrays, values, defaulted], most, { fpMath: math });
  try {
    return await modelOf(context, state, handle, opened, `${label}`);
  } catch (error) {
    native.closeOnnx(handle);
    throw error;
  }
}

/** Has a model read. */
async function open(context, label, origin, [names, sizes], [inputs, arrays, values, defaulted], most, { external = new Map(), outline = false, fpMath = '' }) {
  let handle;
  const entry = { operator: NAME, label, context, arrive: (opened) => opened, fail: () => native.closeOnnx(handle) };
  const locations = [...external.keys()];
  const files = [...external.values()];
  const opened = await begin(entry, (request) => {
    handle = native.openOnnx(
      ...[request, context.handle, origin, names, sizes, label],
      ...[inputs, arrays, values, defaulted, most, locations, files, outline, fpMath],
    );
  });
  return { handle, opened };
}

/**
 * The state of a model, for the interface of onnxruntime: without a limit, with what importing alone tells of outputs, and with sizes
 * only for names that the model has, of those that are given.
 * @param {object} context
 * @param {string | object} source a path, or bytes that Node-API takes
 * @param {{sizes: Record<string, number>, external: Map<string, string | object>}} options
 */
async function openModel(context, source, { sizes, external }) {
  const state = toContext(context);
  const read = (names) => open(state, '', source, [names, names.map((name) => sizes[name])], [[], [], [], []], Infinity, { external, outline: true });
  let { handle, opened } = await read([]);
  try {
    const known = new Set(opened.inputs.flatMap(([, , shape]) => shape ?? []));
    const names = Object.keys(sizes).filter((name) => known.has(name));
    if (names.length > 0) {
      native.closeOnnx(handle);
      ({ handle, opened } = await read(names));
    }
    return modelState(await modelOf(context, state, handle, opened, '', true));
  } catch (error) {
    native.closeOnnx(handle);
    throw error;
  }
}

/**
 * The model, with its plan where all shapes are known.
 * @param {object} context
 * @param {object} contextState
 * @param {number} handle
 * @param {any} opened
 * @param {string} label
 * @param {boolean} [anyScalars] whether what is declared as a scalar may be given any shape
 */
async function modelOf(context, contextState, handle, opened, label, anyScalars = false) {
  if (opened.refused.length > 0) throw refusal(NAME, opened.refused, label);
  const signature = ([name, dataType, shape, type, sequence, optional, buffer]) => {
    return { name, type, dataType: dataType === null ? null : dataTypes[dataType], shape, sequence, optional: optional || buffer !== undefined, buffer };
  };
  const [inputs, outputs] = [opened.inputs.map(signature), opened.outputs.map(signature)];
  const hasLists = [...opened.inputs, ...opened.outputs].some(([, , , , isSequence, isOptional]) => isSequence || isOptional);
  const { producer, producerVersion, version, domain, description, graphName } = opened;
  const state = {
    context,
    contextState,
    handle,
    label,
    inputs,
    outputs,
    hasLists,
    metadata: { producer, producerVersion, version, domain, description, graphName, properties: Object.fromEntries(opened.metadata) },
    only: undefined,
    plans: undefined,
    // Results of caches can be kept where graphs run on memory.
    hasSteps: opened.hasSteps && contextState.device === 'cpu',
    // By the outputs that are written into caches of a fixed size: the inputs that these are.
    pastOf: new Map(opened.fixedCaches),
  };
  state.plans = new Plans(state);
  if (inputs.every(({ shape, sequence, optional, buffer }) => isKnown(shape) && !sequence && (!optional || buffer !== undefined))) {
    const shapes = inputs.map(({ shape }) => shape);
    const plan = await state.plans.make(NAME, keyOf(shapes), shapes);
    if (anyScalars && shapes.some(({ length }) => length === 0)) {
      // One of several, which nothing keeps but the plans.
      if (!plan.walks) state.outputs = plan.outputs.map(({ name, type, dataType, shape }) => ({ name, type, dataType, shape }));
      return createModel(state);
    }
    state.only = plan;
    if (!plan.walks && !state.hasSteps) {
      // One plan is all, which has what it needs of the file.
      native.closeOnnx(handle);
      state.handle = undefined;
    }
  }
  return createModel(state);
}

function requireObject(name, value) {
  if (value !== null && typeof value === 'object') return value;
  throw typeError(NAME, '', `${name}: found ${show(value)}, allowed an object`);
}

function dimensions(freeDimensions) {
  const names = Object.keys(requireObject('options.freeDimensions', freeDimensions));
  const sizes = names.map((name) => {
    const size = freeDimensions[name];
    if (Number.isInteger(size) && size >= 0 && size < 2 ** 31) return size;
    throw typeError(NAME, '', `options: freeDimensions: ${quote(name)}: found ${show(size)}, allowed a whole number from 0 to 2147483647`);
  });
  return { names, sizes };
}

/** Values for inputs; their types are checked where the model is read. */
function constantInputs(constants) {
  const inputs = Object.keys(requireObject('options.constants', constants));
  const values = inputs.map((name) => {
    if (types.isTypedArray(constants[name])) return constants[name];
    throw typeError(NAME, '', `argument 'options': constants: ${quote(name)}: found ${show(constants[name])}, allowed a typed array`);
  });
  return { inputs, arrays: values.map(viewName), values };
}

/** Names of inputs that have a value in the file and may be passed all the same. */
function overridableInputs(overridable) {
  if (Array.isArray(overridable) && overridable.every((name) => typeof name === 'string')) return overridable;
  throw typeError(NAME, '', `options: overridable: found ${show(overridable)}, allowed an array of names`);
}

module.exports = { loadOnnx, openModel };
