'use strict';

// inspectOnnx(): describes a model without a context.

const native = require('../native.js');
const { begin } = require('../settle.js');
const { modelSource } = require('./source.js');

/** @param {string | URL | BufferSource} source */
async function inspectOnnx(source) {
  const origin = modelSource('inspectOnnx', source);
  const entry = { operator: 'inspectOnnx', label: '', context: undefined, arrive: (summary) => summary };
  return begin(entry, (request) => native.summarizeOnnx(request, origin));
}

module.exports = { inspectOnnx };
