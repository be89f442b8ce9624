'use strict';

// require('webnn-node/onnxruntime'): the interface of onnxruntime-node on this engine. An extension of this package; nothing of
// it is in the specification of WebNN.

require('./supported.js');
const common = require('./onnxruntime/common.js');
const { listSupportedBackends } = require('./onnxruntime/providers.js');
const { InferenceSession } = require('./onnxruntime/session.js');

const version = require('./version.js');

// Of onnxruntime-node, if it is there as well, it is what that says; it must be able to say so later.
for (const [name, value] of [['node', common.env.versions.common], ['webnn-node', version]]) {
  if (!(name in common.env.versions)) Object.defineProperty(common.env.versions, name, { value, enumerable: true, configurable: true });
}

module.exports = { ...common, InferenceSession, listSupportedBackends };
