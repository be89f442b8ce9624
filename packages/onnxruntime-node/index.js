'use strict';

// What onnxruntime-node does when it is loaded: its backends are registered, and the interface of onnxruntime-common is exported. The
// backends are those of webnn-node.

const { backend, common, listSupportedBackends } = require('webnn-node/onnxruntime/backend');
const { version } = require('./package.json');

for (const { name } of listSupportedBackends()) common.registerBackend(name, backend, 100);

const { versions } = common.env;
if (!('node' in versions) || Object.getOwnPropertyDescriptor(versions, 'node').configurable) {
  Object.defineProperty(versions, 'node', { value: version, enumerable: true, configurable: true });
}

module.exports = { ...common, listSupportedBackends };
