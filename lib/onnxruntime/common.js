'use strict';

// The objects of the npm package onnxruntime-common. They are used and exported themselves, so `instanceof` works across packages.

let common;
try {
  common = require('onnxruntime-common');
} catch (cause) {
  if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
  throw new Error('webnn-node/onnxruntime: the package onnxruntime-common is not installed. Run "npm install onnxruntime-common"', { cause });
}

module.exports = common;
