'use strict';

// Folders of the hub: a model with its tokenizer.

const { ServeError } = require('../errors.js');

/**
 * @param {{ name: string, version: string, path: string, context: any, onnx?: object, log?: any }} options
 * @returns {Promise<{ onnx: any, destroy(): void }>} `onnx` is the OnnxModel that the Open Inference Protocol runs; undefined if there is none
 */
async function loadHub({ name }) {
  throw new ServeError('unsupported', `model ${JSON.stringify(name)}: folders of the hub are not supported yet`);
}

module.exports = { loadHub };
