'use strict';

// InferenceSession: a subclass of onnxruntime-common's. Its create() uses this engine, and not the registry of backends, which all packages of the
// process share.

const { types } = require('node:util');
const { InferenceSession: Common } = require('./common.js');
const { modelOf, standFor } = require('../onnx/onnx-model.js');
const { provider } = require('./providers.js');
const { SessionHandler } = require('./session-handler.js');

function optionsOf(value) {
  if (value === undefined) return {};
  if (typeof value === 'object' && value !== null) return value;
  throw new TypeError("'options' must be an object.");
}

/** A part of a buffer: `byteOffset, byteLength` as programs give them. */
function partOf(buffer, byteOffset, byteLength) {
  const size = buffer.byteLength;
  if (!Number.isSafeInteger(byteOffset)) throw new RangeError("'byteOffset' must be an integer.");
  if (byteOffset < 0 || byteOffset >= size) throw new RangeError(`'byteOffset' is out of range [0, ${size}).`);
  if (byteLength === undefined) return new Uint8Array(buffer, byteOffset);
  if (typeof byteLength !== 'number') throw new TypeError("'byteLength' must be a number.");
  if (!Number.isSafeInteger(byteLength)) throw new RangeError("'byteLength' must be an integer.");
  if (byteLength <= 0 || byteOffset + byteLength > size) {
    throw new RangeError(`'byteLength' is out of range (0, ${size - byteOffset}].`);
  }
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The overloads of create(): the model and the options. */
function argumentsOf([model, ...rest]) {
  if (typeof model === 'string' || types.isUint8Array(model)) return { source: model, options: optionsOf(rest[0]) };
  if (types.isAnyArrayBuffer(model)) {
    if (typeof rest[0] !== 'number') return { source: new Uint8Array(model), options: optionsOf(rest[0]) };
    const [byteOffset, byteLength, options] = rest;
    const source = partOf(model, byteOffset, byteLength);
    return { source, options: optionsOf(byteLength === undefined ? undefined : options) };
  }
  throw new TypeError("Unexpected argument[0]: must be 'path' or 'buffer'.");
}

class InferenceSession extends Common {
  static async create(...args) {
    const { source, options } = argumentsOf(args);
    const found = await provider(options);
    const handler = await SessionHandler.create(source, found, options);
    const session = new InferenceSession(handler);
    // For webnn-node/generate.
    standFor(session, () => handler.model);
    return session;
  }

  /** How runs are joined, and how many have been; undefined without the option. */
  get batching() {
    return modelOf(this)?.batching?.describe();
  }
}

module.exports = { InferenceSession };
