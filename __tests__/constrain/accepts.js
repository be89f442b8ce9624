'use strict';

// Which texts a constraint allows, without a model: a tokenizer of bytes, whose texts are all there is.

const letters = () => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrinted = (byte >= 33 && byte <= 126) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCodePoint(isPrinted ? byte : next++);
  });
};

const END = 256;
/** The content of tokenizer.json: a token for each byte, and one that ends a text. */
const byteTokenizer = {
  decoder: { type: 'ByteLevel' },
  model: { type: 'BPE', vocab: Object.fromEntries(letters().map((letter, byte) => [letter, byte])), merges: [] },
  added_tokens: [{ id: END, content: '<end>', special: true }],
};

const has = (mask, id) => ((mask[id >> 5] >>> (id & 31)) & 1) === 1;

/** Whether a compiled constraint allows a text, from its beginning to its end. */
function allows(constraint, text) {
  const matcher = constraint.begin();
  for (const byte of Buffer.from(text)) {
    if (matcher.isDone || !has(matcher.mask(), byte)) return false;
    matcher.push(byte);
  }
  return matcher.isDone || has(matcher.mask(), END);
}

/** A text by chance, or nothing if it is not complete soon. `choose` gets the bytes that may come. */
function textBy(constraint, choose, most = 200) {
  const matcher = constraint.begin();
  const bytes = [];
  while (bytes.length < most && !matcher.isDone) {
    const mask = matcher.mask();
    const allowed = Array.from({ length: END + 1 }, (_, id) => id).filter((id) => has(mask, id));
    const id = choose(allowed);
    if (id === END) return Buffer.from(bytes).toString();
    matcher.push(id);
    bytes.push(id);
  }
  return matcher.isDone ? Buffer.from(bytes).toString() : undefined;
}

module.exports = { END, allows, byteTokenizer, textBy };
