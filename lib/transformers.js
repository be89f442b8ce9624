'use strict';

// require('webnn-node/transformers'): makes transformers.js use this engine. When transformers.js is loaded, it takes the onnxruntime under this
// symbol (docs/transformers.md).

const ort = require('./onnxruntime.js');

/**
 * What transformers.js sets in `env` is for this engine alone. Where it finds no paths for WebAssembly and another package of the process
 * is onnxruntime-web, it would load that from a server at the first session.
 */
const env = Object.defineProperties({}, {
  ...Object.getOwnPropertyDescriptors(ort.env),
  wasm: { value: { wasmPaths: {} }, writable: true, enumerable: true, configurable: true },
});

Object.defineProperty(globalThis, Symbol.for('onnxruntime'), { value: { ...ort, env }, writable: true, enumerable: false, configurable: true });
