'use strict';

// The Web Neural Network API for Node.js. This folder is its JavaScript face: WebIDL, promises and exceptions, all in
// the caller's realm. Everything else is native.

const { MLGraphBuilder } = require('./builder.js');
const { MLContext } = require('./context.js');
const { MLGraph } = require('./graph.js');
const { ML, ml } = require('./ml.js');
const { MLOperand } = require('./operand.js');
const { MLTensor } = require('./tensor.js');

module.exports = { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor };
