'use strict';

// The interface that is offered is the one of the npm package onnxruntime-common. Its very objects are used and exported, so that
// `instanceof` holds across packages.

let common;
try {
  common = require('onnxruntime-common');
} catch (cause) {
  if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
  throw new Error('webnn-node/onnxruntime: the package onnxruntime-common is not there: run "npm install onnxruntime-common"', { cause });
}

module.exports = common;
