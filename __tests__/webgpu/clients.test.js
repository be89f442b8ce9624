/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// onnxruntime-web's WebNN execution provider on a context on a GPUDevice of Dawn's, as it runs in Chromium.

const { check } = require('../onnxruntime-web/check.js');
const { onDevice } = require('./device.js');

for (const model of ['convolutional', 'transformer', 'lstm']) {
  onDevice(`a ${model} network runs wholly on WebNN, as on onnxruntime-node`, () => check(model, 'device'), 300_000);
}
