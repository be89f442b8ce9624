'use strict';

// require('webnn-node/onnxruntime/backend'): the backend for onnxruntime-common's registry, for the package in place of onnxruntime-node
// (packages/onnxruntime-node). Loading it registers nothing.

require('../supported.js');
const common = require('./common.js');
const { listSupportedBackends, provider } = require('./providers.js');
const { SessionHandler } = require('./session-handler.js');
const { isObject } = require('./session-options.js');

const backend = {
  /**
   * Nothing: where a session names no provider, onnxruntime-common initializes all that are registered. createInferenceSessionHandler()
   * opens the one that the session gets, and drops those that are not available.
   */
  async init() {},
  async createInferenceSessionHandler(source, options) {
    const given = isObject(options) ? options : {};
    return SessionHandler.create(source, await provider(given), given);
  },
};

module.exports = { backend, common, listSupportedBackends };
