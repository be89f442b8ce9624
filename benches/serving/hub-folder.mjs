// Makes a folder as the hub has them of a decoder of benches/models/make_decoder.py: with the same tokens as in the .gguf beside it, a token for each byte.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ml } from '../../lib/index.js';
import { loadOnnx } from '../../lib/onnx.js';

const BYTES = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);

/** @param {string} file MODEL.onnx @param {string} folder which is made */
export async function makeHubFolder(file, folder) {
  const context = await ml.createContext({ deviceType: 'cpu' });
  const model = await loadOnnx(context, file);
  const count = model.outputs.find(({ name }) => name === 'logits').shape.at(-1);
  model.destroy();
  context.destroy();
  const names = ['<unk>', '<s>', '</s>', ...BYTES, ...Array.from({ length: count - 259 }, (_, i) => `t${i + 259}`)];
  const special = ['<unk>', '<s>', '</s>'].map((content, id) => ({ id, content, special: true, normalized: false, single_word: false, lstrip: false, rstrip: false }));
  const tokenizer = {
    added_tokens: special,
    decoder: { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, { type: 'Fuse' }] },
    model: { type: 'BPE', unk_token: '<unk>', byte_fallback: true, vocab: Object.fromEntries(names.map((name, id) => [name, id])), merges: [] },
  };
  const write = (name, value) => writeFileSync(path.join(folder, name), JSON.stringify(value));
  mkdirSync(path.join(folder, 'onnx'), { recursive: true });
  write('config.json', { model_type: 'llama', eos_token_id: 2, bos_token_id: 1, max_position_embeddings: 4096, vocab_size: count });
  write('tokenizer.json', tokenizer);
  write('tokenizer_config.json', { eos_token: '</s>', bos_token: '<s>', unk_token: '<unk>', chat_template: '{% for message in messages %}{{ message.content }}{% if not loop.last %}\n{% endif %}{% endfor %}' });
  symlinkSync(path.resolve(file), path.join(folder, 'onnx', 'model.onnx'));
}
