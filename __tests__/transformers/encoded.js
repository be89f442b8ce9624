'use strict';

// What encoders of the models of models.br make of an input.

const path = require('node:path');
const { loadOnnx } = require('../../lib/onnx.js');

const long = (list) => ({ data: BigInt64Array.from(list, BigInt), shape: [1, list.length] });

/** What the decoder takes of the encoder. */
async function encoded(context, folder, name) {
  const encoder = await loadOnnx(context, path.join(folder, name, 'onnx', 'encoder_model.onnx'));
  if (name === 'whisper') {
    const features = { data: Float32Array.from({ length: 1600 }, (_, i) => Math.sin(i * i)), shape: [1, 8, 200] };
    return { encoder_hidden_states: (await encoder.run({ input_features: features })).last_hidden_state };
  }
  const ids = long([5, 9, 14, 3, 7, 2]);
  const mask = long([1, 1, 1, 1, 1, 1]);
  const { last_hidden_state } = await encoder.run({ input_ids: ids, attention_mask: mask });
  return { encoder_hidden_states: last_hidden_state, encoder_attention_mask: mask };
}

module.exports = { encoded, long };
