'use strict';

// Adapters (LoRA): values of inputs of a model that many calls have in common. The native side has them once for each decoder.

const { types } = require('node:util');
const native = require('../native.js');
const { invalidState, typeError } = require('../errors.js');
const { readRegularFile } = require('../files.js');
const { construct, illegalUnless, receiverOf } = require('../interface.js');
const { pathSource } = require('../onnx/source.js');
const { quote, show } = require('../show.js');
const { NAME: LOADING, readAdapter } = require('./adapter-file.js');

const NAME = 'generate';

/** Release adapters that were collected. */
const adapters = new FinalizationRegistry((handle) => native.destroyAdapter(handle));

/** Looks into an adapter; nothing for what is none. */
let stateOf;

class Adapter {
  #state;

  constructor(key = undefined, file = undefined) {
    illegalUnless(key);
    /** `natives` are the native sides, by decoder. */
    this.#state = { file, natives: new Map(), destroyed: false };
  }

  /** The inputs of a model that it has values for. */
  get parameters() {
    return self(this, 'parameters').file.parameters.map(({ name, dataType, shape }) => ({ name, dataType, shape: [...shape] }));
  }

  /** What its maker says of it. */
  get adapterVersion() {
    return self(this, 'adapterVersion').file.adapterVersion;
  }

  /** What its maker says of the model. */
  get modelVersion() {
    return self(this, 'modelVersion').file.modelVersion;
  }

  /** Releases the weights. Calls under way go on. */
  destroy() {
    const state = self(this, 'destroy');
    state.destroyed = true;
    state.file = { ...state.file, parameters: state.file.parameters.map((parameter) => ({ ...parameter, data: undefined })) };
    for (const handle of state.natives.values()) native.destroyAdapter(handle);
    state.natives.clear();
    adapters.unregister(state);
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
    if (Symbol.dispose !== undefined) {
      Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.destroy, writable: true, configurable: true });
    }
  }
}

const self = receiverOf('Adapter', stateOf);
const isAdapter = (value) => stateOf(value) !== undefined;

/**
 * Reads an adapter.
 * @param {string | URL | Uint8Array | ArrayBuffer} source a file, or its bytes, which are copied
 * @returns {Promise<Adapter>}
 */
async function loadAdapter(source) {
  // @ts-expect-error only this module makes one
  return new Adapter(construct, readAdapter(await bytesOf(source)));
}

/** The bytes of a source, which are script's no more. */
async function bytesOf(source) {
  if (types.isUint8Array(source)) return Uint8Array.from(source);
  // One that was detached has no bytes.
  if (types.isArrayBuffer(source)) return source.byteLength === 0 ? new Uint8Array(0) : Uint8Array.from(new Uint8Array(source));
  const path = pathSource(LOADING, source);
  if (path === undefined) throw typeError(LOADING, '', `source: found ${show(source)}, allowed a path, a file URL, a Uint8Array or an ArrayBuffer`);
  return readRegularFile(LOADING, '', path);
}

/** The values of an adapter, by the inputs of a model. */
function adapterInputs(label, adapter, others) {
  if (adapter === undefined) return {};
  const { file, destroyed } = stateOf(adapter);
  if (destroyed) throw invalidState(NAME, label, 'the Adapter was destroyed');
  const unknown = file.parameters.find(({ name }) => !others.includes(name));
  if (unknown !== undefined) throw typeError(NAME, label, `options: adapter: found ${quote(unknown.name)}, allowed inputs of the model: ${others.map(quote).join(', ') || 'it has none'}`);
  return Object.fromEntries(file.parameters.map(({ name, dataType, shape, data }) => [name, { data, shape, dataType }]));
}

/**
 * The native side of an adapter, for a decoder; 0 for none.
 * @param {Adapter | undefined} adapter
 * @param {number} decoder
 */
function adapterHandle(adapter, decoder) {
  if (adapter === undefined) return 0;
  const state = stateOf(adapter);
  let handle = state.natives.get(decoder);
  if (handle === undefined) {
    const { parameters } = state.file;
    handle = native.createAdapter(
      decoder,
      parameters.map(({ name }) => name),
      parameters.map(({ shape }) => shape),
      parameters.map(({ data }) => data),
    );
    state.natives.set(decoder, handle);
    adapters.register(adapter, handle, state);
  }
  return handle;
}

module.exports = { Adapter, adapterHandle, adapterInputs, isAdapter, loadAdapter };
