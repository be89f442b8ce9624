'use strict';

// Folders as the hub has them, made of nothing: a tokenizer of bytes, and decoders that say what a script wants.

const fs = require('node:fs');
const path = require('node:path');
const { tensor, writeModel } = require('../../onnx/write.js');

/** The letters of byte-level tokenizers, by byte. */
const LETTERS = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae ? byte : next++));
})();

const START = '<|im_start|>';
const END = '<|im_end|>';
const CHAT = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% if not loop.last %}<|im_end|>
{% endif %}{% endfor %}`;
const WITH_TOOLS = `{% if tools %}<tool_call>{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}${CHAT}`;

/**
 * A byte-level tokenizer: a token for each byte, and further tokens.
 * @param {string[]} special
 * @param {string[]} plain
 */
function byteTokenizer(special, plain) {
  const added = (content, i, isSpecial) => ({ id: i, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: isSpecial });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    added_tokens: [...special.map((text, i) => added(text, 256 + i, true)), ...plain.map((text, i) => added(text, 256 + special.length + i, false))],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, vocab: Object.fromEntries(LETTERS.map((letter, byte) => [letter, byte])), merges: [] },
  };
}

/** A tokenizer as SentencePiece has them: a space is ▁, and other bytes have tokens of their own. */
const piecesTokenizer = () => ({
  added_tokens: [{ id: 1, content: '</s>', special: true, normalized: false }],
  normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] },
  decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] },
  model: {
    type: 'BPE',
    unk_token: '<unk>',
    byte_fallback: true,
    vocab: Object.fromEntries([...['<unk>', '</s>', '▁a', '▁b', 'c', '▁'].map((text, i) => [text, i]), ...Array.from({ length: 256 }, (_, byte) => [`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, 6 + byte])]),
    merges: ['▁ a', '▁ b'],
  },
});

/** A decoder whose next token depends on the last one alone, by a table of logits. It has a cache, which it does not look at. */
function scriptedModel(size, followers) {
  const table = new Float32Array(size * size);
  for (const [token, next] of followers) table[token * size + next] = 30;
  return tableModel(size, table);
}

/** The same with any table: the logits after each token. */
function tableModel(size, table) {
  const nodes = [
    { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['logits'], attributes: { axis: 0 } },
    { op: 'Cast', inputs: ['input_ids'], outputs: ['numbers'], attributes: { to: 1 } },
    { op: 'Unsqueeze', inputs: ['numbers', 'axes'], outputs: ['rows'] },
    { op: 'Concat', inputs: ['past_key_values.0.key', 'rows'], outputs: ['present.0.key'], attributes: { axis: 2 } },
  ];
  return writeModel({
    opset: 17,
    inputs: [
      { name: 'input_ids', type: 'int64', shape: ['batch', 'sequence'] },
      { name: 'past_key_values.0.key', type: 'float', shape: ['batch', 1, 'past', 1] },
    ],
    outputs: [{ name: 'logits' }, { name: 'present.0.key' }],
    nodes,
    initializers: [tensor('table', 'float', [size, size], table), tensor('axes', 'int64', [2], BigInt64Array.of(1n, 3n))],
  });
}

/**
 * Writes a folder with a decoder that answers a message that ends with a letter by a script.
 * @param {string} folder
 * @param {Record<string, (string | number)[]>} scripts by the last letter: what is said, each a plain token or a byte
 * @param {{template?: string | null, maxLength?: number, files?: Record<string, object>}} [options]
 */
function writeChat(folder, scripts, { template = WITH_TOOLS, maxLength = 256, files = {} } = {}) {
  const special = [START, END];
  const plain = [...new Set(Object.values(scripts).flat().filter((one) => typeof one === 'string' && !special.includes(one)))];
  const tokenizer = byteTokenizer(special, plain);
  const idOf = (one) => (typeof one === 'number' ? one : tokenizer.added_tokens.find(({ content }) => content === one).id);
  const followers = new Map();
  for (const [letter, script] of Object.entries(scripts)) {
    let token = letter.charCodeAt(0);
    for (const one of script) {
      followers.set(token, idOf(one));
      token = idOf(one);
    }
  }
  const written = {
    'config.json': { architectures: ['LlamaForCausalLM'], max_position_embeddings: maxLength },
    'generation_config.json': { eos_token_id: 257 },
    'tokenizer.json': tokenizer,
    'tokenizer_config.json': { eos_token: END, bos_token: START, ...(template !== null && { chat_template: template }) },
    ...files,
  };
  fs.mkdirSync(path.join(folder, 'onnx'), { recursive: true });
  for (const [name, value] of Object.entries(written)) fs.writeFileSync(path.join(folder, name), JSON.stringify(value));
  fs.writeFileSync(path.join(folder, 'onnx', 'model_q4.onnx'), scriptedModel(256 + special.length + plain.length, followers));
}

/** A vocabulary of words for an encoder, with the tokens around texts that BERT has. */
function wordTokenizer(words) {
  const vocabulary = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', ...words];
  const token = (name) => ({ SpecialToken: { id: name, type_id: 0 } });
  const sequence = (id, type) => ({ Sequence: { id, type_id: type } });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: vocabulary.slice(0, 4).map((content, id) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
    normalizer: null,
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [token('[CLS]'), sequence('A', 0), token('[SEP]')],
      pair: [token('[CLS]'), sequence('A', 0), token('[SEP]'), sequence('B', 1), { SpecialToken: { id: '[SEP]', type_id: 1 } }],
      special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((name) => [name, { id: name, ids: [vocabulary.indexOf(name)], tokens: [name] }])),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab: Object.fromEntries(vocabulary.map((word, i) => [word, i])) },
  };
}

/** A network that looks vectors up: nothing of a text depends on its other tokens. */
function lookUpModel(count, width) {
  const table = Float32Array.from({ length: count * width }, (_, i) => Math.sin(i * 1.7));
  return writeModel({
    opset: 17,
    inputs: ['input_ids', 'attention_mask', 'token_type_ids'].map((name) => ({ name, type: 'int64', shape: ['batch', 'sequence'] })),
    outputs: [{ name: 'last_hidden_state' }],
    nodes: [{ op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['last_hidden_state'], attributes: { axis: 0 } }],
    initializers: [tensor('table', 'float', [count, width], table)],
  });
}

/** A cross-encoder whose logit is the sum of its tokens' weights. The mask hides the padding. */
function sumModel(weights) {
  return writeModel({
    opset: 17,
    inputs: ['input_ids', 'attention_mask'].map((name) => ({ name, type: 'int64', shape: ['batch', 'sequence'] })),
    outputs: [{ name: 'logits' }],
    nodes: [
      { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['weights'], attributes: { axis: 0 } },
      { op: 'Cast', inputs: ['attention_mask'], outputs: ['mask'], attributes: { to: 1 } },
      { op: 'Mul', inputs: ['weights', 'mask'], outputs: ['shown'] },
      { op: 'ReduceSum', inputs: ['shown', 'axis'], outputs: ['logits'], attributes: { keepdims: 1 } },
    ],
    initializers: [tensor('table', 'float', [weights.length], Float32Array.from(weights)), tensor('axis', 'int64', [1], BigInt64Array.of(1n))],
  });
}

/**
 * Writes a folder with an encoder.
 * @param {string} folder
 * @param {string[]} words
 * @param {{model: Uint8Array, architecture: string, files?: Record<string, object>, maxLength?: number}} options
 */
function writeEncoder(folder, words, { model, architecture, files = {}, maxLength = 16 }) {
  const written = {
    'config.json': { architectures: [architecture], max_position_embeddings: 512, ...(architecture.includes('Classification') && { id2label: { 0: 'LABEL_0' } }) },
    'tokenizer.json': wordTokenizer(words),
    'tokenizer_config.json': { model_max_length: maxLength, pad_token: '[PAD]', cls_token: '[CLS]', sep_token: '[SEP]', unk_token: '[UNK]' },
    ...files,
  };
  fs.mkdirSync(path.join(folder, 'onnx'), { recursive: true });
  for (const [name, value] of Object.entries(written)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), JSON.stringify(value));
  }
  fs.writeFileSync(path.join(folder, 'onnx', 'model.onnx'), model);
}

/** What models of tests say. */
const SCRIPTS = {
  A: ['Hello', ' wor', 'ld', ...Buffer.from('😀'), END],
  C: ['one ', 'STO', 'P two', END],
  // It goes on for ever.
  L: ['la', ' li', ' lu', 'la'],
  T: ['<tool_call>', '\n{"name": "weather", "arguments": ', '{"city": "Paris"}}\n', '</tool_call>', END],
  // What a template writes after the answer of a tool ends with Z.
  Z: ['It rains.', END],
};

/** A model that chats and one that makes vectors. */
function fillText(folder) {
  writeChat(path.join(folder, 'chat'), SCRIPTS, { maxLength: 100_000 });
  writeEncoder(path.join(folder, 'embed'), ['a', 'b', 'c'], { model: lookUpModel(7, 4), architecture: 'BertModel' });
}

module.exports = { CHAT, END, LETTERS, START, WITH_TOOLS, byteTokenizer, fillText, lookUpModel, piecesTokenizer, scriptedModel, tableModel, sumModel, wordTokenizer, writeChat, writeEncoder };
