'use strict';

// A tokenizer of the hub, and what a server wants to know about its tokens.

const { Tokenizer } = require('@huggingface/tokenizers');

/** A token of tokenizer_config.json: its text, or an object with it. */
const textOf = (token) => (typeof token === 'object' && token !== null ? token.content : token) ?? undefined;

/** The bytes that a byte-level tokenizer writes as letters: printable ones as themselves, the others from U+0100 on. */
function byteLetters() {
  const letters = new Map();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    letters.set(String.fromCodePoint(isPrintable ? byte : next++), byte);
  }
  return letters;
}

const LETTERS = byteLetters();

/** Whether a decoder of tokenizer.json is of a kind, or has one in its sequence. */
function hasDecoder(decoder, type) {
  return decoder !== null && decoder !== undefined && (decoder.type === type || (decoder.decoders ?? []).some((one) => hasDecoder(one, type)));
}

class TextTokenizer {
  #tokenizer;
  #special = new Set();
  #added = new Set();
  #isByteLevel;
  #hasBytes;
  #edges = new Map();

  /**
   * @param {object} json tokenizer.json
   * @param {object} config tokenizer_config.json
   */
  constructor(json, config) {
    this.#tokenizer = new Tokenizer({ normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, added_tokens: [], ...json }, config);
    for (const { id, special } of json.added_tokens ?? []) {
      this.#added.add(id);
      if (special) this.#special.add(id);
    }
    for (const text of config.additional_special_tokens ?? []) {
      const id = this.idOf(textOf(text));
      if (id !== undefined) this.#special.add(id);
    }
    this.#isByteLevel = hasDecoder(json.decoder, 'ByteLevel');
    this.#hasBytes = hasDecoder(json.decoder, 'ByteFallback');
    /** Texts of the tokens that templates name, such as `bos_token`. */
    this.named = Object.fromEntries(['bos_token', 'eos_token', 'pad_token', 'unk_token', 'sep_token', 'cls_token'].map((name) => [name, textOf(config[name])]).filter(([, text]) => typeof text === 'string'));
  }

  /** @returns {number | undefined} */
  idOf(text) {
    return typeof text === 'string' ? this.#tokenizer.token_to_id(text) : undefined;
  }

  /** Whether there is such a token. Networks often have more rows than the tokenizer has tokens. */
  has(id) {
    return this.#tokenizer.id_to_token(id) !== undefined;
  }

  /** Whether text leaves a token out. */
  isSpecial(id) {
    return this.#special.has(id);
  }

  /**
   * @param {string} text
   * @param {{add_special_tokens?: boolean}} [options] whether the tokens around every text are added, such as those of its beginning and end
   * @returns {number[]}
   */
  encode(text, options = {}) {
    return this.#known(this.#tokenizer.encode(text, options).ids);
  }

  /**
   * The tokens of one text, or of two, with the types that tell them apart.
   * @param {{text: string, pair?: string, special?: boolean}} texts
   * @returns {{ids: number[], types: number[]}}
   */
  encodeRow({ text, pair = null, special = true }) {
    const { ids, token_type_ids: types } = this.#tokenizer.encode(text, { text_pair: pair, return_token_type_ids: true, add_special_tokens: special });
    return { ids: this.#known(ids), types: types ?? ids.map(() => 0) };
  }

  /** How many tokens follow a text, or two: a shortened text keeps them. */
  tail(isPair) {
    if (!this.#edges.has(isPair)) {
      const [last] = this.encode('a', { add_special_tokens: false }).slice(-1);
      const { ids } = this.encodeRow({ text: 'a', ...(isPair && { pair: 'a' }) });
      this.#edges.set(isPair, ids.length - 1 - ids.lastIndexOf(last));
    }
    return this.#edges.get(isPair);
  }

  /** A tokenizer without a token for unknown text gives undefined for it. */
  #known(ids) {
    return ids.every((id) => id !== undefined) ? ids : ids.filter((id) => id !== undefined);
  }

  /** The text of tokens, without those that no text has. An incomplete character is U+FFFD. */
  decode(ids) {
    const known = ids.filter((id) => this.has(id));
    return known.length === 0 ? '' : this.#tokenizer.decode(known, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  }

  /**
   * The bytes of a token, also if they are only a part of a character.
   * @returns {number[]}
   */
  bytesOf(id) {
    const text = this.#tokenizer.id_to_token(id);
    if (text === undefined) return [];
    if (this.#added.has(id)) return [...Buffer.from(text)];
    if (this.#isByteLevel) {
      const bytes = [...text].map((letter) => LETTERS.get(letter));
      if (bytes.every((byte) => byte !== undefined)) return bytes;
    }
    if (this.#hasBytes && /^<0x[0-9A-F]{2}>$/i.test(text)) return [parseInt(text.slice(3, 5), 16)];
    return [...Buffer.from(this.decode([id]))];
  }
}

module.exports = { TextTokenizer, textOf };
