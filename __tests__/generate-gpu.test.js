'use strict';

// webnn-node/generate on a GPU context: what is remembered stays on the device, and the tokens are those of the CPU.

const { generate } = require('../lib/generate.js');
const { loadOnnx } = require('../lib/onnx.js');
const { expectAlike } = require('./generate/beside.js');
const { ALONE, KINDS, WITH_STATES, decoder } = require('./generate/decoders.js');
const { withContexts } = require('./onnx/contexts.js');

let contexts;

withContexts((cpu, gpu) => {
  contexts = gpu && [gpu, cpu];
});

test.each([...KINDS, ...ALONE, ...WITH_STATES, 'TensorScatter'])('the decoder %s gives what it gives on the CPU, whatever is remembered', async (kind) => {
  if (contexts) await expectAlike(kind, contexts);
}, 300_000);

test('caches in 8 bits are refused', async () => {
  if (!contexts) return;
  const model = await loadOnnx(contexts[0], decoder('concat'));
  const step = generate(model, [1, 2], { cacheType: 'int8' }).next();
  await expect(step).rejects.toMatchObject({ name: 'NotSupportedError', message: expect.stringContaining("found a context on a GPU, allowed one on the CPU for cacheType 'int8'") });
  model.destroy();
});
