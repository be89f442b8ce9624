'use strict';

// loadOnnx(): the file is read, imported and compiled in the background.

const { types } = require('node:util');
const native = require('../native.js');
const { toContext } = require('../context.js');
const { conversionError, exception, invalidState, typeError } = require('../errors.js');
const { createGraph } = require('../graph.js');
const { begin } = require('../settle.js');
const { escapeText, quote, show, viewName } = require('../show.js');
const { argument } = require('../webidl.js');
const { createModel, requireBytes } = require('./model.js');
const { modelSource } = require('./source.js');

const NAME = 'loadOnnx';

/**
 * @param {import('../../index.d.ts').MLContext} context
 * @param {string | URL | BufferSource} source
 * @param {{freeDimensions?: Record<string, number>, constants?: Record<string, ArrayBufferView>, overridable?: string[], maxBytes?: number, label?: string}} [options]
 */
async function loadOnnx(context, source, options = {}) {
  let state;
  try {
    state = argument('context', context, toContext);
  } catch (error) {
    throw conversionError(error, NAME);
  }
  const origin = modelSource(NAME, source);
  const { freeDimensions = {}, constants = {}, overridable = [], maxBytes, label = '' } = requireObject('options', options);
  const { names, sizes } = dimensions(freeDimensions);
  const { inputs, arrays, values } = constantInputs(constants);
  const defaulted = overridableInputs(overridable);
  // None is told by a negative number.
  const most = maxBytes === undefined ? -1 : requireBytes(NAME, '', maxBytes);
  if (state.lost) throw invalidState(NAME, label, 'the MLContext was destroyed or lost');
  let handle;
  const entry = {
    operator: NAME,
    label,
    context: state,
    arrive(imported) {
      if (imported.refused !== undefined) throw refusal(imported.refused, label);
      return createModel(context, createGraph(state, handle, label, imported), imported, label);
    },
    fail: () => native.destroyGraph(handle),
  };
  return begin(entry, (request) => {
    handle = native.importOnnx(request, state.handle, origin, names, sizes, `${label}`, inputs, arrays, values, defaulted, most);
  });
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

/** All nodes that cannot be mapped, in the message and as `nodes`. */
function refusal(nodes, label) {
  const lines = nodes.map(
    ({ name, operator, domain, version, reason }) =>
      `\n  node ${quote(name)}: ${escapeText(operator)} of ${escapeText(domain)} version ${version}: ${escapeText(reason)}`,
  );
  const count = nodes.length === 1 ? 'one of the nodes' : `${nodes.length} of the nodes`;
  const prefix = label ? `${NAME} [${label}]` : NAME;
  const error = exception('NotSupportedError', `${prefix}: ${count} of the model cannot be run:${lines.join('')}`);
  Object.defineProperty(error, 'nodes', { value: nodes, enumerable: true });
  return error;
}

module.exports = { loadOnnx };
