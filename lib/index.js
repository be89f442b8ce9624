'use strict';

// The Web Neural Network API for Node.js. This folder has WebIDL, promises and exceptions, all in the caller's realm. Everything else is native.

require('./supported.js');
const { MLGraphBuilder } = require('./builder.js');
const { MLCommandBuffer } = require('./command-buffer.js');
const { MLCommandEncoder } = require('./command-encoder.js');
const { MLContext } = require('./context.js');
const { MLAwaitedExecution, MLExecution } = require('./execution.js');
const { MLGraph } = require('./graph.js');
const { ML, ml } = require('./ml.js');
const { MLOperand } = require('./operand.js');
const { MLTensor } = require('./tensor.js');

module.exports = {
  ml,
  ML,
  MLAwaitedExecution,
  MLCommandBuffer,
  MLCommandEncoder,
  MLContext,
  MLExecution,
  MLGraph,
  MLGraphBuilder,
  MLOperand,
  MLTensor,
};
