'use strict';

// What the ECMAScript modules of this folder export. They import this file alone, and call what may fail: if an ECMAScript module imports a
// CommonJS module that throws, Node.js 20 reports the error a second time, as an uncaught one, and the process exits. The names are
// literals: bundlers follow them.

module.exports = {
  index: () => require('./index.js'),
  generate: () => require('./generate.js'),
  onnx: () => require('./onnx.js'),
  register: () => require('./register.js'),
  webgpu: () => require('./webgpu.js'),
};
