'use strict';

// AllowSharedBufferSource, and the specification's "validate buffer with descriptor".
//
// This is wider than the specification (docs/extensions.md C6, G3):
//
// * A DataView is a slice of bytes, like a Uint8Array. float16 takes a Uint16Array. A read takes an Int8Array, as onnxruntime-web passes it.
// * Resizable and growable buffers are accepted. writeTensor() copies before it returns (C4), and a growing WebAssembly.Memory has to work.
//   Their length is the one at the time of the call.

const { types } = require('node:util');
const { Mismatch } = require('./errors.js');
const { viewName, withArticle } = require('./show.js');

function getter(prototype, name) {
  return Function.prototype.call.bind(Object.getOwnPropertyDescriptor(prototype, name).get);
}

const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype);

// Not the properties, which script can shadow: what the objects really are.
const view = {
  byteLength: getter(typedArrayPrototype, 'byteLength'),
  byteOffset: getter(typedArrayPrototype, 'byteOffset'),
  buffer: getter(typedArrayPrototype, 'buffer'),
};
const dataView = {
  byteLength: getter(DataView.prototype, 'byteLength'),
  byteOffset: getter(DataView.prototype, 'byteOffset'),
  buffer: getter(DataView.prototype, 'buffer'),
};
const arrayBufferLength = getter(ArrayBuffer.prototype, 'byteLength');
const sharedArrayBufferLength = getter(SharedArrayBuffer.prototype, 'byteLength');

const ALLOWED = 'an ArrayBuffer, a SharedArrayBuffer, a typed array or a DataView';

/** `AllowSharedBufferSource`; the object itself, since its bytes are looked at where they are used. */
function bufferSource(value) {
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return value;
  throw new Mismatch(value, ALLOWED);
}

/** The length now; 0 where the buffer is detached or the view lies outside of it. */
function byteLength(source) {
  if (types.isTypedArray(source)) return view.byteLength(source);
  if (types.isArrayBuffer(source)) return arrayBufferLength(source);
  if (types.isSharedArrayBuffer(source)) return sharedArrayBufferLength(source);
  try {
    return dataView.byteLength(source);
  } catch {
    // Unlike typed arrays a DataView throws.
    return 0;
  }
}

function isDetached(buffer) {
  if (!types.isArrayBuffer(buffer)) return false;
  if (arrayBufferLength(buffer) > 0) return false;
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

const resizable = getter(ArrayBuffer.prototype, 'resizable');

/** Whether an ArrayBuffer's length can change. */
function isResizable(buffer) {
  return resizable(buffer);
}

function bufferOf(source) {
  if (types.isTypedArray(source)) return view.buffer(source);
  if (ArrayBuffer.isView(source)) return dataView.buffer(source);
  return source;
}

/** Where in its buffer a view begins. */
function byteOffset(source) {
  return types.isTypedArray(source) ? view.byteOffset(source) : dataView.byteOffset(source);
}

/** Bytes of a buffer source, as they are now; throws where there are none any more. */
function bytesOf(source) {
  if (types.isTypedArray(source)) return new Uint8Array(view.buffer(source), view.byteOffset(source), view.byteLength(source));
  if (ArrayBuffer.isView(source)) return new Uint8Array(dataView.buffer(source), dataView.byteOffset(source), dataView.byteLength(source));
  return new Uint8Array(source);
}

/**
 * "Validate buffer with descriptor".
 * @param {object} source
 * @param {{byteLength: number, views: readonly string[], text: string}} wanted
 * @param {string} [bytes] a view that is a slice of bytes here, besides Uint8Array
 * @returns {string | undefined} what is wrong
 */
function validateBuffer(source, wanted, bytes = undefined) {
  const found = byteLength(source);
  if (found !== wanted.byteLength) {
    const what = isDetached(bufferOf(source)) ? 'a detached buffer' : `${found} bytes`;
    return `found ${what}, allowed the ${wanted.byteLength} bytes of ${wanted.text}`;
  }
  if (types.isTypedArray(source)) {
    const name = viewName(source);
    if (!wanted.views.includes(name) && name !== bytes) {
      return `found ${withArticle(name)}, allowed for ${wanted.text} ${wanted.views.join(', ')}, an ArrayBuffer, a SharedArrayBuffer or a DataView`;
    }
  }
  return undefined;
}

/** Node-API takes a view of a SharedArrayBuffer, but not the buffer itself. */
function viewable(source) {
  return types.isSharedArrayBuffer(source) ? new Uint8Array(source) : source;
}

module.exports = { bufferOf, bufferSource, byteLength, byteOffset, bytesOf, isDetached, isResizable, validateBuffer, viewable };
