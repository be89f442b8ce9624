'use strict';

// Loads a model with dynamic batching, where it computes rows apart.

const { loadOnnx } = require('webnn-node/onnx');

/**
 * @param {any} context
 * @param {string} file
 * @param {object} options of `loadOnnx`, with `batching` and a `label`
 * @param {any} [log] is told why runs are not joined
 */
async function loadBatched(context, file, options, log = undefined) {
  try {
    return await loadOnnx(context, file, options);
  } catch (error) {
    if (error.name !== 'NotSupportedError' || error.nodes !== undefined || options.batching === false) throw error;
    log?.info({ model: options.label, reason: error.message }, 'runs of this model are not joined');
    return loadOnnx(context, file, { ...options, batching: false });
  }
}

module.exports = { loadBatched };
