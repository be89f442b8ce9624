'use strict';

// The exports of the ECMAScript modules of this folder. They import only this file, and call functions that may fail. If an ECMAScript module
// imports a CommonJS module that throws, Node.js 20 reports the error a second time, as uncaught, and the process exits. The names are literals,
// because bundlers follow them.

module.exports = {
  index: () => require('./index.js'),
  generate: () => require('./generate.js'),
  onnx: () => require('./onnx.js'),
  register: () => require('./register.js'),
  webgpu: () => require('./webgpu.js'),
};
