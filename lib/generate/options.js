'use strict';

// Reads the options of generate().

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { readInputs } = require('../onnx/inputs.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { readPriority, requireTimeout } = require('../onnx/options.js');
const { quote, show } = require('../show.js');
const { adapterInputs, isAdapter } = require('./adapter.js');
const { NAME, cacheTypeOf, isCache } = require('./cache.js');
const { readConstraint } = require('./constraint.js');
const { readEmbed, readFeatures } = require('./embedding.js');
const { readEncoder, readFirst } = require('./encoder.js');
const { requireMembers } = require('./members.js');
const { isToken, isTokenKey, otherThanTokens, tokensOf } = require('./tokens.js');

/**
 * @typedef {object} CheckedOptions
 * @property {number} most tokens of each sequence
 * @property {number} count sequences of each prompt
 * @property {number[]} numbers temperature, topK, topP, minP, and the penalties of repetition, presence and frequency
 * @property {number} seed negative for none
 * @property {[number[], number[]]} bias tokens, and what is added to their logits
 * @property {number[][]} stops sequences of tokens that end a sequence
 * @property {Function | undefined} until tells of a token whether it ends its sequence
 * @property {Function | undefined} hook
 * @property {import('../generate.d.ts').Constraint | undefined} constraint
 * @property {number} top how many of the most probable tokens are told
 * @property {{draft?: import('../onnx/model.js').Model, guesses: number} | undefined} speculate
 * @property {import('../scheduling.js').Schedule} schedule
 * @property {AbortSignal | undefined} signal
 * @property {object | undefined} cache
 * @property {string} cacheType
 * @property {object} inputs
 * @property {import('./adapter.js').Adapter | undefined} adapter
 * @property {import('../onnx/model.js').Model | undefined} embed the model that embeds tokens
 * @property {import('./embedding.js').Features[]} features
 * @property {import('./encoder.js').Encoder | undefined} encoder
 * @property {import('../onnx/model.js').Model | undefined} first of two decoders the one without caches
 */

/** By option: its default, what it may be, and the place in the list of numbers. */
const NUMBERS = {
  temperature: [0, (x) => x >= 0, 'a number from 0'],
  topK: [0, (x) => Number.isInteger(x) && x >= 0, 'a whole number from 0'],
  topP: [1, (x) => x > 0 && x <= 1, 'a number above 0, at most 1'],
  minP: [0, (x) => x >= 0 && x <= 1, 'a number from 0 to 1'],
  repetitionPenalty: [1, (x) => x > 0 && x < Infinity, 'a number above 0'],
  presencePenalty: [0, Number.isFinite, 'a number'],
  frequencyPenalty: [0, Number.isFinite, 'a number'],
};

/** They are searched one by one. */
const MOST_TOP = 100;
/** More sequences for a prompt are a mistake: each takes memory before the first token. */
const MOST_SEQUENCES = 1024;

const KNOWN = new Set([...Object.keys(NUMBERS), 'adapter', 'bias', 'cache', 'cacheType', 'constraint', 'embed', 'encoder', 'features', 'inputs', 'logits', 'maxNewTokens', 'priority', 'seed', 'sequences', 'signal', 'speculate', 'stop', 'timeout', 'topLogprobs', 'until', 'withoutPast']);

function fail(label, name, found, allowed) {
  throw typeError(NAME, label, `options: ${name}: found ${show(found)}, allowed ${allowed}`);
}

/**
 * @param {string} label of the model
 * @param {unknown} options
 * @returns {CheckedOptions}
 */
function readOptions(label, options = {}) {
  if (options === null || typeof options !== 'object') throw typeError(NAME, label, `options: found ${show(options)}, allowed an object`);
  requireMembers(label, options, KNOWN);
  const numbers = Object.entries(NUMBERS).map(([name, [usual, fits, allowed]]) => {
    const { [name]: value = usual } = options;
    return typeof value === 'number' && fits(value) ? value : fail(label, name, value, allowed);
  });
  const whole = (name, usual, first, last = Number.MAX_SAFE_INTEGER) => {
    const { [name]: value = usual } = options;
    if (value === Infinity && name === 'maxNewTokens') return value;
    const fits = Number.isSafeInteger(value) && value >= first && value <= last;
    return fits ? value : fail(label, name, value, `a whole number from ${first}${last < Number.MAX_SAFE_INTEGER ? ` to ${last}` : ''}`);
  };
  const { signal, adapter, cache, inputs = {} } = options;
  if (signal !== undefined && !isSignal(signal)) fail(label, 'signal', signal, 'an AbortSignal');
  if (adapter !== undefined && !isAdapter(adapter)) fail(label, 'adapter', adapter, 'an Adapter');
  if (cache !== undefined && !isCache(cache)) fail(label, 'cache', cache, 'a GenerationCache');
  if (inputs === null || typeof inputs !== 'object') fail(label, 'inputs', inputs, 'values by the names of the inputs');
  return {
    most: whole('maxNewTokens', 256, 0),
    count: whole('sequences', 1, 1, MOST_SEQUENCES),
    numbers,
    seed: options.seed === undefined ? -1 : whole('seed', 0, 0),
    bias: readBias(label, options.bias),
    stops: readStops(label, options.stop),
    until: readFunction(label, options, 'until'),
    hook: readFunction(label, options, 'logits'),
    constraint: readConstraint(label, options.constraint),
    top: readTop(label, options),
    speculate: readSpeculate(label, options.speculate),
    schedule: { priority: readPriority(NAME, label, options.priority), signal, timeout: requireTimeout(NAME, label, options.timeout) },
    signal,
    cache,
    cacheType: cacheTypeOf(label, options),
    inputs,
    adapter,
    embed: readEmbed(label, options.embed),
    features: readFeatures(label, options.features),
    encoder: readEncoder(label, options.encoder),
    first: readFirst(label, options.withoutPast),
  };
}

function readTop(label, { topLogprobs: count = 0 }) {
  return Number.isInteger(count) && count >= 0 && count <= MOST_TOP ? count : fail(label, 'topLogprobs', count, `a whole number from 0 to ${MOST_TOP}`);
}

/** Guesses at most: a step has a token before them. */
const MOST_GUESSES = 15;

const GUESSING = new Set(['draft', 'guesses', 'prompt']);

/** What guesses, the text before or another model, and how many tokens each time: 0 for as many as are worth it. */
function readSpeculate(label, speculate) {
  if (speculate === undefined) return undefined;
  const allowed = "'prompt', or an object with prompt: true or a draft, which is an OnnxModel or an InferenceSession of webnn-node/onnxruntime";
  const { prompt, draft: given, guesses } = speculate === 'prompt' ? { prompt: true } : (speculate ?? {});
  const draft = given === undefined ? undefined : modelOf(given);
  if (speculate !== null && typeof speculate === 'object') requireMembers(label, speculate, GUESSING, 'speculate: ');
  if (prompt === true ? given !== undefined : draft === undefined) fail(label, 'speculate', speculate, allowed);
  if (guesses === undefined || (Number.isInteger(guesses) && guesses >= 1 && guesses <= MOST_GUESSES)) return { draft, guesses: guesses ?? 0 };
  return fail(label, 'speculate: guesses', guesses, `a whole number from 1 to ${MOST_GUESSES}`);
}

function readFunction(label, options, name) {
  const value = options[name];
  if (value !== undefined && typeof value !== 'function') fail(label, name, value, 'a function');
  return value;
}

/** One of any realm. */
function isSignal(value) {
  return typeof value === 'object' && value !== null && typeof value.aborted === 'boolean' && ['addEventListener', 'removeEventListener', 'throwIfAborted'].every((name) => typeof value[name] === 'function');
}

function readBias(label, bias) {
  if (bias === undefined) return [[], []];
  if (bias === null || typeof bias !== 'object') fail(label, 'bias', bias, 'numbers by token');
  const entries = types.isMap(bias) ? [...bias] : Object.entries(bias);
  for (const [id, number] of entries) {
    if (!isTokenKey(id)) fail(label, 'bias', id, 'the number of a token');
    if (typeof number !== 'number' || Number.isNaN(number)) fail(label, `bias: ${id}`, number, 'a number');
  }
  return [entries.map(([id]) => Number(id)), entries.map(([, number]) => number)];
}

/** One token, or several, or sequences of tokens among them. */
function readStops(label, stop) {
  if (stop === undefined) return [];
  const list = typeof stop === 'number' || typeof stop === 'bigint' ? [stop] : stop;
  if (list === null || typeof list !== 'object' || typeof list[Symbol.iterator] !== 'function') {
    fail(label, 'stop', stop, 'a token, or an array of tokens and arrays of tokens');
  }
  return [...list].map((one) => {
    const ids = typeof one === 'number' || typeof one === 'bigint' ? [Number(one)] : tokensOf(one);
    if (ids === undefined || ids.length === 0) fail(label, 'stop', one, 'a token, or an array of tokens');
    const other = ids.find((id) => !isToken(id));
    return other === undefined ? ids : fail(label, 'stop', other, 'whole numbers from 0 to 2147483647');
  });
}

/** An element of a list that is no token, nor a list of tokens. */
const shownIn = (element) => (Array.isArray(element) ? `an array with ${show(otherThanTokens(element))}` : show(element));

/**
 * The prompts. Negative tokens are those that features stand for.
 * @param {string} label
 * @param {unknown} ids a list of tokens, or several
 * @param {import('./embedding.js').Features[]} features
 * @returns {(Uint32Array | Int32Array)[]}
 */
function readPrompts(label, ids, features) {
  const text = [ids, ...(Array.isArray(ids) ? ids : [])].find((list) => Array.isArray(list) && list.some((id) => typeof id === 'string'));
  if (text !== undefined) {
    const found = text === ids ? 'an array of strings' : 'an array of arrays of strings';
    throw typeError(NAME, label, `ids: found ${found}, allowed an array of tokens, or an array of those (a tokenizer makes tokens of text)`);
  }
  const one = tokensOf(ids);
  const several = one === undefined && Array.isArray(ids) ? Array.from(ids, tokensOf) : [one];
  const other = several.indexOf(undefined);
  if (several.length === 0 || other >= 0) {
    const found = Array.isArray(ids) && ids.length > 0 ? `an array with ${shownIn(ids[other])}` : show(ids);
    throw typeError(NAME, label, `ids: found ${found}, allowed an array of tokens, or an array of those`);
  }
  for (const tokens of several) {
    if (tokens.length === 0) throw typeError(NAME, label, 'ids: found no token, allowed at least one: to begin without a prompt, pass the token with which the model begins a text');
    const wrong = tokens.find((id) => !isToken(id) && !features.some(({ token }) => token === id));
    if (wrong !== undefined) throw typeError(NAME, label, `ids: found ${show(wrong)}, allowed whole numbers from 0 to 2147483647`);
  }
  return several.map((tokens) => (tokens.some((id) => id < 0) ? Int32Array : Uint32Array).from(tokens));
}

/** Values for inputs that have no meaning to generate(). Those of an adapter have no array, because the native side has it. */
function readGiven({ label, inputs: signatures, defaults }, others, inputs, adapter) {
  const adapted = adapterInputs(label, adapter, others);
  const given = { ...adapted, ...inputs };
  const unknown = Object.keys(given).find((name) => !others.includes(name));
  if (unknown !== undefined) {
    throw typeError(NAME, label, `options: inputs: found ${quote(unknown)}, allowed ${others.map(quote).join(', ') || 'no name'}`);
  }
  const wanted = signatures.filter(({ name }) => others.includes(name));
  const { values, shapes } = readInputs(NAME, label, wanted, given, { defaults });
  return { names: wanted.map(({ name }) => name), shapes, arrays: wanted.map(({ name }) => (Object.hasOwn(adapted, name) && !Object.hasOwn(inputs, name) ? undefined : values[name])) };
}

module.exports = { readGiven, readOptions, readPrompts };
