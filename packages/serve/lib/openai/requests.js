'use strict';

// Reads what requests for text have in common: each value is checked before anything runs.

const { readFormat } = require('./constraints.js');
const { invalid, unsupported } = require('./errors.js');

/** What one request may ask for. `createServer({ text: { … } })` changes them. */
const LIMITS = {
  /** Choices of a request: `n` for each of its prompts. */
  choices: 16,
  /** Tokens of a choice, if the request names no number. */
  maxTokens: 4096,
  prompts: 64,
  messages: 2048,
  /** Characters of all texts of a request. */
  characters: 2 ** 20,
  /** Texts of an embeddings request. OpenAI has the same limit. */
  inputs: 2048,
  documents: 1024,
  stops: 16,
  stopCharacters: 1024,
  tools: 128,
  /** Objects in objects. */
  depth: 64,
  /** Milliseconds of a request; OpenAI's own clients wait as long. */
  timeout: 600_000,
  /** Milliseconds that a client may take to read what was written. */
  stall: 60_000,
};

const is = {
  boolean: (x) => typeof x === 'boolean',
  string: (x) => typeof x === 'string',
  array: (x) => Array.isArray(x),
  object: (x) => typeof x === 'object' && x !== null && !Array.isArray(x),
  whole: (low, high = Number.MAX_SAFE_INTEGER) => (x) => Number.isSafeInteger(x) && x >= low && x <= high,
  number: (low, high) => (x) => typeof x === 'number' && x >= low && x <= high,
};

/** A value of the body; undefined if it is absent or null, which OpenAI's API has as the same. */
function read(body, name, fits, allowed) {
  const value = body[name] ?? undefined;
  if (value === undefined || fits(value)) return value;
  throw invalid(name, `${name}: found ${shown(value)}, allowed ${allowed}.`, typeof value === 'number' ? 'invalid_value' : 'invalid_type');
}

function shown(value) {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

const readFlag = (body, name) => read(body, name, is.boolean, 'true or false') ?? false;

/** The body, whose objects are not too deep for what reads them. */
function readBody(body, { depth }) {
  if (!is.object(body)) throw invalid(null, 'The body of the request must be a JSON object.', 'invalid_type');
  let level = [body];
  for (let i = 0; level.length > 0; i++) {
    if (i > depth) throw invalid(null, `The body of the request has more than ${depth} objects inside each other.`);
    level = level.flatMap((value) => Object.values(value)).filter((value) => typeof value === 'object' && value !== null);
  }
  return body;
}

function requireCharacters(param, texts, { characters }) {
  const count = texts.reduce((sum, text) => sum + text.length, 0);
  if (count > characters) throw invalid(param, `${param}: found ${count} characters, allowed at most ${characters}.`, 'string_above_max_length');
}

function readStops(body, { stops: most, stopCharacters }) {
  const stop = body.stop ?? [];
  const list = typeof stop === 'string' ? [stop] : stop;
  if (!is.array(list) || !list.every(is.string)) throw invalid('stop', 'stop: allowed a string or an array of strings.', 'invalid_type');
  if (list.length > most) throw invalid('stop', `stop: found ${list.length} strings, allowed at most ${most}.`);
  if (list.some((text) => text === '' || text.length > stopCharacters)) throw invalid('stop', `stop: allowed strings of 1 to ${stopCharacters} characters.`);
  return list;
}

function readBias(body) {
  const bias = read(body, 'logit_bias', is.object, 'an object with numbers by token');
  if (bias === undefined) return undefined;
  for (const [id, value] of Object.entries(bias)) {
    if (!/^\d{1,9}$/.test(id) || !is.number(-100, 100)(value)) throw invalid('logit_bias', 'logit_bias: allowed numbers from -100 to 100 by the numbers of tokens.');
  }
  // OpenAI: 100 is a token that must be chosen, -100 one that never is.
  return Object.fromEntries(Object.entries(bias).map(([id, value]) => [Number(id), value === -100 ? -Infinity : value]));
}

/**
 * Options of `generate`: those of the request, otherwise what the model's generation_config.json says.
 * @param {object} body
 * @param {object} usual
 */
function readSampling(body, usual) {
  const temperature = read(body, 'temperature', is.number(0, 2), 'a number from 0 to 2');
  const given = {
    temperature: temperature ?? usual.temperature ?? 1,
    topP: read(body, 'top_p', is.number(0, 1), 'a number from 0 to 1') ?? usual.top_p ?? 1,
    topK: read(body, 'top_k', is.whole(-1), 'a whole number') ?? usual.top_k ?? 0,
    minP: read(body, 'min_p', is.number(0, 1), 'a number from 0 to 1') ?? usual.min_p ?? 0,
    repetitionPenalty: read(body, 'repetition_penalty', is.number(0.01, 100), 'a number above 0') ?? usual.repetition_penalty ?? 1,
    presencePenalty: read(body, 'presence_penalty', is.number(-2, 2), 'a number from -2 to 2') ?? 0,
    frequencyPenalty: read(body, 'frequency_penalty', is.number(-2, 2), 'a number from -2 to 2') ?? 0,
    seed: readSeed(body),
    bias: readBias(body),
  };
  // Of no probability at all there is still the most probable token.
  if (given.topP === 0) Object.assign(given, { topP: 1, temperature: 0 });
  if (given.topK < 0) given.topK = 0;
  return given;
}

/** `generate` takes seeds from 0. */
function readSeed(body) {
  const seed = read(body, 'seed', is.whole(Number.MIN_SAFE_INTEGER), 'a whole number');
  return seed === undefined ? undefined : Math.abs(seed);
}

/** Parameters that would change the result, by name, with the values that change nothing. */
const REFUSED = { functions: [], function_call: ['none'], audio: [], prediction: [], web_search_options: [], suffix: [''], grammar: [], guided_json: [], guided_regex: [], structured_outputs: [] };

function refuseOthers(body) {
  for (const [name, allowed] of Object.entries(REFUSED)) {
    const value = body[name] ?? undefined;
    if (value !== undefined && !allowed.includes(value)) throw unsupported(name, `${name}: this server does not support it.`);
  }
  const { modalities } = body;
  if (is.array(modalities) && modalities.some((one) => one !== 'text')) throw unsupported('modalities', "modalities: allowed ['text'].");
}

/**
 * What chats and completions have in common.
 * @param {object} body
 * @param {import('./language-model.js').LanguageModel} model
 * @param {typeof LIMITS} limits
 */
function readCommon(body, model, limits) {
  const format = readFormat(body);
  refuseOthers(body);
  const count = read(body, 'n', is.whole(1), 'a whole number from 1') ?? 1;
  if (count > limits.choices) throw invalid('n', `n: found ${count}, allowed at most ${limits.choices}.`);
  const stream = readFlag(body, 'stream');
  const options = read(body, 'stream_options', is.object, 'an object') ?? {};
  return { count, stream, usage: stream && readFlag(options, 'include_usage'), stop: readStops(body, limits), sampling: readSampling(body, model.usual), format };
}

/** How long a choice may become: as long as was asked for, and as there is room. */
function readMaxTokens(body, names, { least, usual, room }) {
  const [first] = names.map((name) => read(body, name, is.whole(least), `a whole number from ${least}`)).filter((value) => value !== undefined);
  return Math.min(first ?? usual, room);
}

module.exports = { LIMITS, is, read, readBody, readCommon, readFlag, readMaxTokens, requireCharacters, shown };
