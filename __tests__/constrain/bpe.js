'use strict';

// A byte-level BPE tokenizer, as tokenizer.json has it, trained on a text.

/** The letters of byte-level tokenizers, by byte. */
const LETTERS = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae ? byte : next++));
})();

/** GPT-2's words. */
const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

const SPECIAL = ['<|end|>', '<|start|>'];

/** The most frequent pair of neighbours in words; nothing if none comes twice. */
function mostFrequent(words) {
  const counts = new Map();
  for (const [parts, count] of words) {
    for (let i = 1; i < parts.length; i++) {
      const pair = `${parts[i - 1]} ${parts[i]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  const [best, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 1]);
  return count > 1 ? best : undefined;
}

function merge(parts, [left, right]) {
  const merged = [];
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] === left && parts[i + 1] === right) merged.push(left + parts[++i]);
    else merged.push(parts[i]);
  }
  return merged;
}

/**
 * @param {string} text
 * @param {number} size tokens at most, without special ones
 */
function trainBpe(text, size) {
  const counts = new Map();
  for (const [word] of text.matchAll(WORDS)) counts.set(word, (counts.get(word) ?? 0) + 1);
  let words = [...counts].map(([word, count]) => [[...Buffer.from(word)].map((byte) => LETTERS[byte]), count]);
  const merges = [];
  const vocab = Object.fromEntries(LETTERS.map((letter, byte) => [letter, byte]));
  while (Object.keys(vocab).length < size) {
    const pair = mostFrequent(words);
    if (pair === undefined) break;
    const two = pair.split(' ');
    merges.push(pair);
    vocab[two.join('')] ??= Object.keys(vocab).length;
    words = words.map(([parts, count]) => [merge(parts, two), count]);
  }
  const first = Object.keys(vocab).length;
  const added = (content, i) => ({ id: first + i, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    added_tokens: SPECIAL.map(added),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, vocab, merges },
  };
}

module.exports = { LETTERS, SPECIAL, trainBpe };
