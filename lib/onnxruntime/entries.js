'use strict';

// As ../entries.js, for the modules that stand on onnxruntime-common.

module.exports = {
  backend: () => require('./backend.js'),
  onnxruntime: () => require('../onnxruntime.js'),
  transformers: () => require('../transformers.js'),
};
