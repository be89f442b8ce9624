/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// webnn-node/generate on a context on a GPUDevice: the tokens that onnxruntime-node gives.

const { rmSync } = require('node:fs');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { GenerationCache, generate } = require('../../lib/generate.js');
const { all, expectAlike } = require('../generate/beside.js');
const { TOKENS, decoder, expected } = require('../generate/decoders.js');
const { encoded } = require('../transformers/encoded.js');
const { unpackModels } = require('../transformers/models.js');
const { newContext, newDevice, onDevice } = require('./device.js');

const prompt = (length) => Array.from({ length }, (_, i) => (i * i * 5 + 3 * i + 5) % TOKENS);

async function ids(...given) {
  const found = [];
  for await (const { id } of generate(...given)) found.push(id);
  return found;
}

/** Drivers in software compile the kernels of several plans. */
const LIMIT = 300_000;

onDevice('a decoder, from one call to the next', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, decoder('genai'));
  const wanted = expected([{ kind: 'genai', prompt: prompt(3), count: 4 }])[0].map(({ id }) => id);
  const cache = new GenerationCache();
  const first = await ids(model, prompt(3), { maxNewTokens: 2, cache });
  const rest = await ids(model, [...prompt(3), ...first], { maxNewTokens: 2, cache });
  expect([...first, ...rest]).toEqual(wanted);
  cache.destroy();
  model.destroy();
}, LIMIT);

// Rows that begin where a shader can have them or do not, a plan for each length, states; the others run on this package's own GPU.
describe.each(['concat', 'MultiHeadAttention', 'unmasked', 'genai with states'])('the decoder %s', (kind) => {
  onDevice('gives what it gives on the CPU, whatever is remembered', async () => {
    const { context } = await newContext();
    const onCpu = await ml.createContext({ accelerated: false });
    await expectAlike(kind, [context, onCpu]);
    onCpu.destroy();
  }, LIMIT);
});

/** A device that notes what goes through the host, and what is copied between buffers of its own. */
function noting(device) {
  const notes = { written: 0, read: 0, copied: 0 };
  const replacing = (target, methods) => new Proxy(target, {
    get(_, name) {
      const value = methods[name] ?? target[name];
      return typeof value === 'function' ? (...given) => Reflect.apply(value, target, given) : value;
    },
  });
  const queue = replacing(device.queue, {
    writeBuffer(buffer, offset, data, ...rest) {
      notes.written += rest.length > 1 ? rest[1] * (data.BYTES_PER_ELEMENT ?? 1) : data.byteLength;
      return this.writeBuffer(buffer, offset, data, ...rest);
    },
  });
  const encoder = (real) => replacing(real, {
    copyBufferToBuffer(from, first, to, at, length) {
      // Of what it may map the host reads all.
      notes[to.usage & 1 ? 'read' : 'copied'] += length;
      return this.copyBufferToBuffer(from, first, to, at, length);
    },
  });
  const noted = replacing(device, { queue, createCommandEncoder: (...given) => encoder(device.createCommandEncoder(...given)) });
  return { noted, notes };
}

onDevice('of a step only the tokens, their mask and positions, and the logits go through the host', async () => {
  const { noted, notes } = noting(await newDevice());
  const context = await ml.createContext(noted);
  // Its rows have 256 bytes, so they begin where a shader can have them, and 128 in the other.
  for (const [kind, row] of [['MultiHeadAttention', 256], ['concat', 128]]) {
    const model = await loadOnnx(context, decoder(kind));
    const cache = new GenerationCache();
    await ids(model, prompt(100), { maxNewTokens: 20, cache });
    const tokens = generate(model, prompt(121), { maxNewTokens: 4, cache });
    // What it begins with, and plans.
    await tokens.next();
    await tokens.next();
    Object.assign(notes, { written: 0, read: 0, copied: 0 });
    for (let step = 0; step < 2; step++) await tokens.next();
    expect(notes.read).toBe(2 * 4 * TOKENS);
    // Places are numbers of 64 bits, and what hides the rows in front is a float32 for each row. The caches would be 2 x 4 x 128 rows.
    expect(notes.written).toBeGreaterThan(0);
    expect(notes.written).toBeLessThanOrEqual(2 * (8 * (1 + 1 + 129) + 4 * 129));
    // One of two steps begins at a multiple of 256 bytes in any case: the other has 128 rows copied, and the new one back, in 4 caches.
    expect(notes.copied).toBe(row === 256 ? 0 : 4 * 129 * row);
    await tokens.return();
    model.destroy();
  }
}, LIMIT);

onDevice('what is remembered is on the device, and goes with the cache', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, decoder('MultiHeadAttention'));
  const cache = new GenerationCache();
  const tensors = () => context.memoryUsage().tensors;
  const before = tensors();
  await all(model, prompt(20), { maxNewTokens: 2, cache });
  // 256 rows of 256 bytes in 4 caches at least.
  expect(tensors() - before).toBeGreaterThanOrEqual(4 * 256 * 256);
  cache.destroy();
  for (let turn = 0; turn < 1000 && tensors() > before; turn++) await setTimeout(1);
  expect(tensors()).toBe(before);
  model.destroy();
}, LIMIT);

onDevice('two devices at once, one of which is lost in the middle', async () => {
  const [one, two] = [await newContext(), await newContext()];
  const onCpu = await ml.createContext({ accelerated: false });
  const models = await Promise.all([one, two, { context: onCpu }].map(({ context }) => loadOnnx(context, decoder('concat'))));
  const lost = ids(models[0], prompt(20), { maxNewTokens: 1000 });
  lost.catch(() => {});
  const found = [];
  for await (const { id } of generate(models[1], prompt(20), { maxNewTokens: 12 })) {
    found.push(id);
    if (found.length === 3) one.device.destroy();
  }
  await expect(lost).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  expect(found).toEqual(await ids(models[2], prompt(20), { maxNewTokens: 12 }));
  onCpu.destroy();
}, LIMIT);

onDevice('encoder-decoders', async () => {
  const folder = unpackModels();
  try {
    const { context } = await newContext();
    const onCpu = await ml.createContext({ accelerated: false });
    for (const name of ['t5', 'whisper']) {
      const tokens = async (where) => {
        const given = await encoded(where, folder, name);
        const model = await loadOnnx(where, path.join(folder, name, 'onnx', 'decoder_model_merged.onnx'));
        const found = await ids(model, [2], { maxNewTokens: 3, inputs: given });
        model.destroy();
        return found;
      };
      expect(await tokens(context)).toEqual(await tokens(onCpu));
    }
    onCpu.destroy();
  } finally {
    rmSync(folder, { recursive: true });
  }
}, LIMIT);

onDevice('it ends with its context', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, decoder('genai'));
  for (const wait of [200, 0]) {
    const generating = ids(model, prompt(6), { maxNewTokens: 1000 });
    generating.catch(() => {});
    await setTimeout(wait);
    context.destroy();
    await expect(generating).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  }
}, LIMIT);
