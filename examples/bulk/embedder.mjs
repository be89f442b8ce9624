// Texts → vectors of length 1.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';

/** Texts that are computed together. */
const TOGETHER = 32;

/**
 * @param {string} folder with tokenizer.json, tokenizer_config.json and onnx/model.onnx
 * @param {{ threads?: number }} [options]
 */
export async function loadEmbedder(folder, { threads } = {}) {
  const [vocabulary, config] = ['tokenizer.json', 'tokenizer_config.json'].map((file) => JSON.parse(readFileSync(path.join(folder, file), 'utf8')));
  const tokenizer = new Tokenizer(vocabulary, config);
  const context = await ml.createContext({ deviceType: 'cpu', ...(threads !== undefined && { numThreads: threads }) });
  const model = await loadOnnx(context, path.join(folder, 'onnx', 'model.onnx'));
  const most = Math.min(config.model_max_length ?? 256, 512);

  async function compute(list) {
    const length = Math.max(...list.map((tokens) => tokens.length));
    const shape = [list.length, length];
    const [ids, mask] = [new BigInt64Array(list.length * length), new BigInt64Array(list.length * length)];
    list.forEach((tokens, row) => {
      tokens.forEach((token, column) => {
        ids[row * length + column] = BigInt(token);
        mask[row * length + column] = 1n;
      });
    });
    const all = { input_ids: ids, attention_mask: mask, token_type_ids: new BigInt64Array(ids.length) };
    const results = await model.run(Object.fromEntries(model.inputs.map(({ name }) => [name, { data: all[name], shape }])));
    const output = results[model.outputs[0].name];
    return list.map((tokens, row) => meanOf(output, row, tokens.length));
  }

  /** Texts of about the same length are computed together, so there is little padding. */
  async function embed(texts) {
    const rows = texts.map((text, place) => ({ place, tokens: tokenizer.encode(text).ids.slice(0, most) }));
    rows.sort((one, other) => one.tokens.length - other.tokens.length);
    const vectors = new Array(texts.length);
    for (let i = 0; i < rows.length; i += TOGETHER) {
      const part = rows.slice(i, i + TOGETHER);
      const found = await compute(part.map(({ tokens }) => tokens));
      part.forEach(({ place }, at) => (vectors[place] = found[at]));
    }
    return vectors;
  }

  const close = () => {
    model.destroy();
    context.destroy();
  };
  return { embed, close };
}

/** The mean of a text's own tokens, scaled to length 1. */
function meanOf({ data, shape: [, length, width] }, row, count) {
  const mean = new Float32Array(width);
  for (let i = 0; i < count; i++) {
    const at = (row * length + i) * width;
    for (let j = 0; j < width; j++) mean[j] += data[at + j];
  }
  const norm = Math.hypot(...mean) || 1;
  return mean.map((value) => value / norm);
}
