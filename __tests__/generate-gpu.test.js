'use strict';

// webnn-node/generate on a GPU context: what is remembered stays on the device, and the tokens are those of the CPU.

const { expectAlike } = require('./generate/beside.js');
const { ALONE, KINDS, WITH_STATES } = require('./generate/decoders.js');
const { withContexts } = require('./onnx/contexts.js');

let contexts;

withContexts((cpu, gpu) => {
  contexts = gpu && [gpu, cpu];
});

test.each([...KINDS, ...ALONE, ...WITH_STATES, 'TensorScatter'])('the decoder %s gives what it gives on the CPU, whatever is remembered', async (kind) => {
  if (contexts) await expectAlike(kind, contexts);
}, 300_000);
