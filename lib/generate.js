'use strict';

// require('webnn-node/generate'): text, token by token, with an ONNX model of a decoder. An extension of this package.

require('./supported.js');
const { Adapter, loadAdapter } = require('./generate/adapter.js');
const { GenerationCache, generationUsage } = require('./generate/cache.js');
const { Detokenizer } = require('./generate/detokenizer.js');
const { generate } = require('./generate/generate.js');
const { StopStrings } = require('./generate/stop-strings.js');
const { generateText } = require('./generate/text.js');

module.exports = { Adapter, Detokenizer, GenerationCache, StopStrings, generate, generateText, generationUsage, loadAdapter };
