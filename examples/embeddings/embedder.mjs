// Texts → vectors of length 1.
import { Tokenizer } from '@huggingface/tokenizers';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { InferenceSession, Tensor } from 'webnn-node/onnxruntime';

/**
 * @param {string} folder with tokenizer.json and onnx/model.onnx
 * @param {{threads?: number}} [options]
 */
export async function loadEmbedder(folder, { threads } = {}) {
  const [vocabulary, config] = ['tokenizer.json', 'tokenizer_config.json'].map((file) => JSON.parse(readFileSync(path.join(folder, file), 'utf8')));
  const tokenizer = new Tokenizer(vocabulary, config);
  const options = { executionProviders: ['cpu'], ...(threads !== undefined && { intraOpNumThreads: threads }) };
  const session = await InferenceSession.create(path.join(folder, 'onnx', 'model.onnx'), options);
  const most = Math.min(config.model_max_length ?? 256, 512);

  /** The tokens of a text. */
  const encode = (text) => tokenizer.encode(text).ids.slice(0, most);

  /** The vectors of several: shorter ones are padded, and the mask says so. */
  async function embed(list, signal) {
    const length = Math.max(...list.map((tokens) => tokens.length));
    const dims = [list.length, length];
    const [ids, mask] = [new BigInt64Array(list.length * length), new BigInt64Array(list.length * length)];
    list.forEach((tokens, row) => {
      tokens.forEach((token, column) => {
        ids[row * length + column] = BigInt(token);
        mask[row * length + column] = 1n;
      });
    });
    const all = { input_ids: ids, attention_mask: mask, token_type_ids: new BigInt64Array(ids.length) };
    const feeds = Object.fromEntries(session.inputNames.map((name) => [name, new Tensor('int64', all[name], dims)]));
    const output = (await session.run(feeds, { signal }))[session.outputNames[0]];
    return list.map((tokens, row) => meanOf(output, row, tokens.length));
  }

  return { encode, embed, dispose: () => session.release() };
}

/** The mean of a text's own rows, scaled to length 1. */
function meanOf({ data, dims: [, length, width] }, row, count) {
  const mean = new Float32Array(width);
  for (let i = 0; i < count; i++) {
    const at = (row * length + i) * width;
    for (let j = 0; j < width; j++) mean[j] += data[at + j];
  }
  const norm = Math.hypot(...mean) || 1;
  return mean.map((value) => value / norm);
}
