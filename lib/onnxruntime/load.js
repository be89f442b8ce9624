'use strict';

// Loads a model from a path or bytes.

const fs = require('node:fs/promises');
const { openModel } = require('../onnx/load.js');
const { plain } = require('./errors.js');

/** What onnxruntime says of files that are none. */
async function requireFile(path) {
  const stat = await fs.stat(path).catch(() => undefined);
  if (stat === undefined) throw new Error(`Load model from ${path} failed:Load model ${path} failed. File doesn't exist`);
  if (stat.isDirectory()) {
    throw new Error('The model path is a directory. Loading a model package from a directory path is not supported.');
  }
}

/** What onnxruntime says of bytes that are no model; what is wrong with them is the cause. */
function unparsed({ message }, isPath) {
  if (message.includes('not a valid ONNX model: it has no graph')) return isPath ? undefined : 'No graph was found in the protobuf.';
  if (!message.includes('not a valid ONNX model: no protobuf message')) return undefined;
  return isPath ? 'Protobuf parsing failed.' : 'Failed to load model because protobuf parsing failed.';
}

/**
 * @param {object} context
 * @param {string | Uint8Array} source
 * @param {Record<string, any>} options checked
 */
async function loadModel(context, source, { freeDimensionOverrides = {}, externalData = new Map(), batching, cache }) {
  const isPath = typeof source === 'string';
  if (isPath) await requireFile(source);
  else if (source.byteLength === 0) throw new Error('Model data pointer is null. No graph was found in the protobuf.');
  try {
    // A program that gives a model to onnxruntime vouches for it; there is no limit there either.
    return await openModel(context, source, { sizes: freeDimensionOverrides, external: externalData, batching, cache });
  } catch (error) {
    const words = unparsed(error, isPath);
    if (isPath) throw new Error(`Load model from ${source} failed:${words ?? error.message}`, { cause: error });
    throw words === undefined ? plain(error) : new Error(words, { cause: error });
  }
}

module.exports = { loadModel };
