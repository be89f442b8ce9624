'use strict';

// Like ../entries.js, for the modules that need onnxruntime-common.

module.exports = {
  backend: () => require('./backend.js'),
  onnxruntime: () => require('../onnxruntime.js'),
  transformers: () => require('../transformers.js'),
};
