'use strict';

// require('webnn-node/generate'): text, token by token, with an ONNX model of a decoder. An extension of this package.

const { GenerationCache } = require('./generate/cache.js');
const { generate } = require('./generate/generate.js');

module.exports = { GenerationCache, generate };
