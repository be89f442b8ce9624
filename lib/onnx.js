'use strict';

// require('webnn-node/onnx'): ONNX models as WebNN graphs. An extension of this package; nothing of it is in the
// specification.

require('./supported.js');
const { loadOnnx } = require('./onnx/load.js');
const { inspectOnnx } = require('./onnx/inspect.js');
const { OnnxBindings } = require('./onnx/bindings.js');
const { OnnxModel } = require('./onnx/onnx-model.js');
const { OnnxTensor } = require('./onnx/tensor.js');

module.exports = { OnnxBindings, OnnxModel, OnnxTensor, inspectOnnx, loadOnnx };
