'use strict';

// `webnn-node/webgpu`: functions for WebGPU, beside the methods of MLContext (docs/extensions.md F1, F2).

require('./supported.js');
const { conversionError, typeError } = require('./errors.js');
const { isDestroyed, toTensor } = require('./tensor.js');
const { argument, dictionary, usvString } = require('./webidl.js');
const { requiredFeatures, requiredLimits, toGPUDevice } = require('./webgpu/device.js');
const { importExternalBuffer: importTensor } = require('./webgpu/sharing.js');

/** GPUImportedTensorDescriptor of the MLTensor explainer. */
const importDescriptor = dictionary([{ name: 'label', convert: usvString, absent: '' }], [{ name: 'source', convert: toTensor, required: true }]);

/**
 * `GPUDevice.importExternalBuffer(descriptor)` of the MLTensor explainer, as a function.
 * @param {GPUDevice} device
 * @param {{source: import('..').MLTensor, label?: string}} descriptor
 * @returns {Promise<GPUBuffer>}
 */
async function importExternalBuffer(device, descriptor) {
  let label, tensor;
  try {
    device = argument('device', device, toGPUDevice);
    ({ label, source: tensor } = argument('descriptor', descriptor, importDescriptor));
  } catch (error) {
    throw conversionError(error, 'importExternalBuffer');
  }
  if (isDestroyed(tensor)) {
    throw typeError('importExternalBuffer', label, 'source: found an MLTensor that was destroyed or whose MLContext was lost, allowed one that still exists');
  }
  return importTensor(tensor, device, label);
}

module.exports = { importExternalBuffer, requiredFeatures, requiredLimits };
