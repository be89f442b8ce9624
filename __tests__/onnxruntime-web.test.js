'use strict';

// A real client of the API: onnxruntime-web with its WebNN execution provider, in plain Node on top of
// webnn-node/register (docs/extensions.md A2 and section 7).

const { check } = require('./onnxruntime-web/check.js');

test.each(['convolutional', 'transformer', 'quantized', 'lstm'])('A2: a %s network runs wholly on WebNN, as on onnxruntime-node', async (model) => {
  await check(model);
});
