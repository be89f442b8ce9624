'use strict';

// GenerationCache: keeps what a decoder has seen from one call of generate() to others.

const native = require('../native.js');
const { invalidState, typeError } = require('../errors.js');
const { receiverOf } = require('../interface.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { begin } = require('../settle.js');
const { show } = require('../show.js');
const { requireMembers } = require('./members.js');
const { isToken, otherThanTokens, tokensOf } = require('./tokens.js');

const NAME = 'generate';
/** The bytes of a cache, unless its `maxBytes` says how many. */
const MAX_BYTES = 2 ** 30;

/** How caches keep what a model has seen: as the model has it, or in 8 bits. */
const MODEL = 'model';
const INT8 = 'int8';
const CACHE_TYPES = [MODEL, INT8];

/** Release decoders and caches that were collected. */
const decoders = new FinalizationRegistry((handle) => native.closeDecoder(handle));
const caches = new FinalizationRegistry((handle) => native.destroyPrefixes(handle));

/**
 * A model whose inputs have been looked at.
 * @typedef {{handle: number, others: string[]}} Decoder
 */

/**
 * The decoders of a model: by the model that embeds tokens, which most do not have, and the type of the caches.
 * @type {WeakMap<import('../onnx/model.js').Model, {embed: import('../onnx/model.js').Model | undefined, cacheType: string, decoder: Promise<Decoder>}[]>}
 */
const opened = new WeakMap();

/**
 * The decoder of a model, which is opened once.
 * @param {import('../onnx/model.js').Model} model
 * @param {import('../onnx/model.js').Model} [embed] embeds tokens
 * @param {string} [cacheType]
 * @returns {Promise<Decoder>}
 */
function decoderOf(model, embed = undefined, cacheType = MODEL) {
  let all = opened.get(model);
  if (all === undefined) opened.set(model, (all = []));
  const found = all.find((one) => one.embed === embed && one.cacheType === cacheType);
  if (found !== undefined) return found.decoder;
  const entry = { embed, cacheType, decoder: open(model, embed, cacheType) };
  all.push(entry);
  entry.decoder.catch(() => all.splice(all.indexOf(entry), 1));
  return entry.decoder;
}

/** The decoders of a model that exist, at least one. */
async function decodersOf(model) {
  const all = await Promise.allSettled((opened.get(model) ?? []).map(({ decoder }) => decoder));
  const usable = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  return usable.length > 0 ? usable : [await decoderOf(model)];
}

async function open(model, embed, cacheType) {
  let handle;
  const entry = {
    operator: NAME,
    label: model.label,
    context: model.contextState,
    arrive: (others) => others,
    fail: () => native.closeDecoder(handle),
  };
  const others = await begin(entry, (request) => {
    handle = native.openDecoder(request, model.handle, embed?.handle ?? 0, cacheType === INT8);
  });
  decoders.register(model, handle);
  // Its plans refer to the weights, which go with the model.
  const before = model.whenClosed;
  model.whenClosed = () => {
    before?.();
    native.closeDecoder(handle);
  };
  return { handle, others };
}

/** @returns {import('../generate.d.ts').GenerationCacheUsage} */
const usage = ([bytes, sequences, hits, misses, reusedTokens]) => ({ bytes, sequences, hits, misses, reusedTokens });

/** Figures of two decoders: numbers add up, and of reasons the first stays. */
const added = (first, second) => (typeof first === 'number' ? first + second : first || second);

/**
 * What the steps of all calls on a model took.
 * @param {import('../onnx.d.ts').OnnxModel} model
 */
async function generationUsage(model) {
  const loaded = modelOf(model);
  if (loaded === undefined) throw typeError('generationUsage', '', `model: found ${show(model)}, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime`);
  loaded.requireUsable('generationUsage');
  const decoders = await decodersOf(loaded);
  loaded.requireUsable('generationUsage');
  const all = decoders.map(({ handle }) => native.decoderFigures(handle));
  const [steps, runs, promptTokens, reason, guessed, accepted, speculationReason, ...figures] = all.reduce((sums, ofOne) => sums.map((sum, i) => added(sum, ofOne[i])));
  return { steps, runs, promptTokens, ...(reason !== '' && { reason }), guessed, accepted, ...(speculationReason !== '' && { speculationReason }), cache: usage(figures) };
}

/** Looks into a cache; nothing for what is none. */
let stateOf;

class GenerationCache {
  /** `prefixes` is the native side, from the first call on. */
  #state = { maxBytes: MAX_BYTES, minTokens: 1, cacheType: MODEL, model: undefined, embed: undefined, prefixes: undefined, pins: [], known: [], destroyed: false };

  constructor(options = {}) {
    Object.assign(this.#state, readCacheOptions(options));
  }

  /** How many tokens of each prompt of the latest call were known when it began. */
  get known() {
    return [...self(this, 'known').known];
  }

  memoryUsage() {
    const { maxBytes, prefixes } = self(this, 'memoryUsage');
    return { maxBytes, ...usage(prefixes === undefined ? [0, 0, 0, 0, 0] : native.prefixFigures(prefixes)) };
  }

  /** Keeps a sequence that begins with these tokens, whatever it takes. */
  pin(ids) {
    const state = self(this, 'pin');
    const pin = readPin('pin', ids);
    requireOpen('pin', '', state);
    state.pins.push(pin);
    if (state.prefixes !== undefined) native.pinPrefix(state.prefixes, pin, true);
  }

  /** Takes {@link pin} back; `false` if these tokens were not pinned. */
  unpin(ids) {
    const state = self(this, 'unpin');
    const pin = readPin('unpin', ids);
    const position = state.pins.findIndex((other) => other.length === pin.length && other.every((id, i) => id === pin[i]));
    if (position < 0) return false;
    state.pins.splice(position, 1);
    if (state.prefixes !== undefined) native.pinPrefix(state.prefixes, pin, false);
    return true;
  }

  /** Writes what is kept into a file, for {@link load}. */
  async save(file) {
    const state = self(this, 'save');
    const path = fileOf('save', file);
    requireOpen('save', '', state);
    const { model } = state;
    if (state.prefixes === undefined) throw invalidState('save', '', 'no call has used the GenerationCache yet');
    await withFile('save', state, model, (request, handle) => native.savePrefixes(request, handle, state.prefixes, path));
  }

  /** A cache with what {@link save} has written of the same model. */
  static async load(model, file, options = {}) {
    const loaded = modelOf(model);
    if (loaded === undefined) throw typeError('load', '', `model: found ${show(model)}, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime`);
    const path = fileOf('load', file);
    const cache = new GenerationCache(options);
    const state = stateOf(cache);
    try {
      await withFile('load', state, loaded, (request, handle) => {
        state.model = loaded;
        openPrefixes(state, handle);
        native.loadPrefixes(request, handle, state.prefixes, path);
      });
    } catch (error) {
      cache.destroy();
      throw error;
    }
    return cache;
  }

  /** Releases all that is kept. */
  destroy() {
    const state = self(this, 'destroy');
    state.destroyed = true;
    state.pins = [];
    if (state.prefixes === undefined) return;
    caches.unregister(state);
    native.destroyPrefixes(state.prefixes);
    state.prefixes = undefined;
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
    if (Symbol.dispose !== undefined) {
      Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.destroy, writable: true, configurable: true });
    }
  }
}

const self = receiverOf('GenerationCache', stateOf);

function readCacheOptions(options) {
  const refuse = (text) => typeError('GenerationCache', '', `options: ${text}`);
  if (options === null || typeof options !== 'object') throw refuse(`found ${show(options)}, allowed an object`);
  requireMembers('', options, ['cacheType', 'maxBytes', 'minTokens'], '', 'GenerationCache');
  const { cacheType = MODEL, maxBytes = MAX_BYTES, minTokens = 1 } = options;
  if (!CACHE_TYPES.includes(cacheType)) throw refuse(`cacheType: found ${show(cacheType)}, allowed ${CACHE_TYPES.map(show).join(', ')}`);
  if (typeof maxBytes !== 'number' || !(maxBytes >= 0)) throw refuse(`maxBytes: found ${show(maxBytes)}, allowed a number from 0`);
  if (!Number.isSafeInteger(minTokens) || minTokens < 1) throw refuse(`minTokens: found ${show(minTokens)}, allowed a whole number from 1`);
  return { cacheType, maxBytes, minTokens };
}

function readPin(operator, ids) {
  const tokens = tokensOf(ids);
  if (tokens !== undefined && tokens.length > 0 && tokens.every(isToken)) return Uint32Array.from(tokens);
  const found = tokens?.length === 0 ? 'no token' : show(otherThanTokens(ids));
  throw typeError(operator, '', `ids: found ${found}, allowed an array of tokens, which are whole numbers from 0 to 2147483647`);
}

function fileOf(operator, file) {
  if (typeof file === 'string' && file !== '' && !file.includes('\0')) return file;
  throw typeError(operator, '', `file: found ${show(file)}, allowed the path of a file`);
}

/** Has the native side read or write a file of a cache. The model stays meanwhile. */
async function withFile(operator, state, model, start) {
  const { cacheType } = state;
  model.requireUsable(operator);
  model.enter();
  try {
    const { handle } = await decoderOf(model, undefined, cacheType);
    requireOpen(operator, '', state);
    await begin({ operator, label: model.label, context: model.contextState, arrive: () => undefined }, (request) => start(request, handle));
  } finally {
    model.leave();
  }
}

function requireOpen(operator, label, state) {
  if (state.destroyed) throw invalidState(operator, label, 'the GenerationCache was destroyed');
}

/** A cache for a call on a model, and perhaps one that embeds tokens: those of another model are refused. */
function take(cache, model, embed = undefined) {
  const state = stateOf(cache);
  requireOf(state, model, embed);
  return state;
}

function requireOf(state, model, embed) {
  requireOpen(NAME, model.label, state);
  if (state.model !== undefined && (state.model !== model || state.embed !== embed)) {
    throw typeError(NAME, model.label, 'options: cache: found a GenerationCache of another model, allowed one of this');
  }
}

/**
 * The native side of a call, which keeps what it sees in a cache, or where calls keep it by default. From now on the cache is the model's.
 * @param {Decoder} decoder
 * @param {object | undefined} state of the cache
 * @param {import('../onnx/model.js').Model} model
 * @param {import('../onnx/model.js').Model} [embed] embeds tokens
 */
function openSession({ handle }, state, model, embed) {
  if (state === undefined) return native.createSession(handle, 0);
  requireOf(state, model, embed);
  Object.assign(state, { model, embed });
  if (state.prefixes === undefined) openPrefixes(state, handle);
  return native.createSession(handle, state.prefixes);
}

/** Makes the native side of a cache. */
function openPrefixes(state, decoder) {
  state.prefixes = native.createPrefixes(decoder, state.maxBytes, state.minTokens);
  caches.register(state, state.prefixes, state);
  for (const pin of state.pins) native.pinPrefix(state.prefixes, pin, true);
}

const isCache = (value) => stateOf(value) !== undefined;

/** The type of the caches of a call: that of its GenerationCache, if it has one. */
function cacheTypeOf(label, { cache, cacheType }) {
  if (cacheType !== undefined && !CACHE_TYPES.includes(cacheType)) {
    throw typeError(NAME, label, `options: cacheType: found ${show(cacheType)}, allowed ${CACHE_TYPES.map(show).join(', ')}`);
  }
  const own = cache && stateOf(cache).cacheType;
  if (own !== undefined && cacheType !== undefined && own !== cacheType) {
    throw typeError(NAME, label, `options: cacheType: found ${show(cacheType)}, allowed ${show(own)}, as the GenerationCache has it`);
  }
  return own ?? cacheType ?? MODEL;
}

module.exports = { GenerationCache, NAME, cacheTypeOf, decoderOf, generationUsage, isCache, openSession, take };
