'use strict';

// GenerationCache: keeps the sequences of a decoder from one call of generate() to the next.

const native = require('../native.js');
const { invalidState, typeError } = require('../errors.js');
const { receiverOf } = require('../interface.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { begin } = require('../settle.js');
const { show } = require('../show.js');

const NAME = 'generate';

/** Release decoders and sessions that were collected. */
const decoders = new FinalizationRegistry((handle) => native.closeDecoder(handle));
const sessions = new FinalizationRegistry((handle) => native.destroySession(handle));

/**
 * A model whose inputs have been looked at.
 * @typedef {{handle: number, others: string[]}} Decoder
 */

/** @type {WeakMap<import('../onnx/model.js').Model, Promise<Decoder>>} */
const opened = new WeakMap();

/**
 * The decoder of a model, which is opened once.
 * @param {import('../onnx/model.js').Model} model
 * @returns {Promise<Decoder>}
 */
function decoderOf(model) {
  let found = opened.get(model);
  if (found === undefined) {
    found = open(model);
    opened.set(model, found);
    found.catch(() => opened.delete(model));
  }
  return found;
}

async function open(model) {
  let handle;
  const entry = {
    operator: NAME,
    label: model.label,
    context: model.contextState,
    arrive: (others) => others,
    fail: () => native.closeDecoder(handle),
  };
  const others = await begin(entry, (request) => {
    handle = native.openDecoder(request, model.handle);
  });
  decoders.register(model, handle);
  // Its plans refer to the weights, which go with the model.
  model.whenClosed = () => native.closeDecoder(handle);
  return { handle, others };
}

/**
 * What the steps of all calls on a model took.
 * @param {import('../onnx.d.ts').OnnxModel} model
 */
async function generationUsage(model) {
  const loaded = modelOf(model);
  if (loaded === undefined) throw typeError('generationUsage', '', `model: found ${show(model)}, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime`);
  loaded.requireUsable('generationUsage');
  const { handle } = await decoderOf(loaded);
  const [steps, runs, reason] = native.decoderFigures(handle);
  return { steps, runs, ...(reason !== '' && { reason }) };
}

/** Looks into a cache; nothing for what is none. */
let stateOf;

class GenerationCache {
  #state = { model: undefined, session: undefined, running: undefined, inUse: false, known: [], destroyed: false };

  /** How many tokens of each prompt of the last call were remembered and not computed again. */
  get known() {
    return [...self(this, 'known').known];
  }

  /** Releases all kept sequences. */
  destroy() {
    const state = self(this, 'destroy');
    state.destroyed = true;
    forget(state);
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
    if (Symbol.dispose !== undefined) {
      Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.destroy, writable: true, configurable: true });
    }
  }
}

const self = receiverOf('GenerationCache', stateOf);

/** Takes a cache for a call, until {@link release}. */
function take(cache, model) {
  const state = stateOf(cache);
  if (state.destroyed) throw invalidState(NAME, model.label, 'the GenerationCache was destroyed');
  if (state.inUse) throw invalidState(NAME, model.label, 'the GenerationCache is in use by another generate()');
  if (state.model !== undefined && state.model !== model) {
    throw typeError(NAME, model.label, 'options: cache: found a GenerationCache of another model, allowed one of this');
  }
  state.inUse = true;
  state.model = model;
  return state;
}

/** The native side of it. */
function sessionOf(state, decoder) {
  if (state.session === undefined) {
    state.session = native.createSession(decoder.handle);
    sessions.register(state, state.session, state);
  }
  return state.session;
}

function release(state) {
  state.inUse = false;
  if (state.session !== undefined) native.leaveSession(state.session);
  if (state.destroyed) forget(state);
}

/** Releases the session. Work under way ends by itself. */
function forget(state) {
  if (state.session === undefined || state.inUse) return;
  sessions.unregister(state);
  native.destroySession(state.session);
  state.session = undefined;
}

const isCache = (value) => stateOf(value) !== undefined;

module.exports = { GenerationCache, NAME, decoderOf, generationUsage, isCache, release, sessionOf, take };
