'use strict';

// Detokenizer: makes text of tokens, one by one, as far as no later token can change it.

const { typeError } = require('../errors.js');
const { show } = require('../show.js');

/** How many tokens before a token may decide what it looks like, such as whether there is a space before it. */
const CONTEXT = 4;
/** How many tokens wait for the end of a character at most: if more come, it has none. */
const MOST_WAITING = 8 * CONTEXT;
const INCOMPLETE = '\uFFFD';
const AS_IT_IS = { skip_special_tokens: false, clean_up_tokenization_spaces: false };

/** What a tokenizer makes of tokens. @returns {string} */
function requireText(text) {
  if (typeof text === 'string') return text;
  throw typeError('Detokenizer', '', `tokenizer: found ${show(text)} as the result of decode(), allowed a string`);
}

/** Tells the tokens that have no text: special ones, and those that the tokenizer does not know. */
function hides(tokenizer) {
  const known = new Map();
  const isHidden = (id) => {
    let text;
    let shown;
    try {
      [text, shown] = [false, true].map((skips) => tokenizer.decode([id], { ...AS_IT_IS, skip_special_tokens: skips }));
    } catch {
      return true;
    }
    return text === undefined || text === null || (requireText(text) !== '' && shown === '');
  };
  return (id) => {
    if (!known.has(id)) known.set(id, isHidden(id));
    return known.get(id);
  };
}

class Detokenizer {
  #tokenizer;
  #isHidden;
  /** The tokens of the window: those that only give context, and those whose text is not complete. */
  #ids;
  #sent;

  /**
   * @param {import('../generate.d.ts').TextTokenizer} tokenizer
   * @param {{prompt?: ArrayLike<number>, isHidden?: (id: number) => boolean}} [options] the tokens before, whose text is not repeated, and
   * which tokens have no text: by default special ones
   */
  constructor(tokenizer, { prompt = [], isHidden = hides(tokenizer) } = {}) {
    this.#tokenizer = tokenizer;
    this.#isHidden = isHidden;
    this.#ids = Array.from(prompt)
      .slice(-2 * CONTEXT)
      .map(Number)
      .filter((id) => !isHidden(id))
      .slice(-CONTEXT);
    this.#sent = complete(this.#decode(this.#ids));
  }

  #decode(ids) {
    if (ids.length === 0) return '';
    return requireText(this.#tokenizer.decode([...ids], AS_IT_IS));
  }

  /**
   * Adds a token.
   * @returns {string} the text that is complete now: never a part of a character
   */
  push(id) {
    if (this.#isHidden(id)) return '';
    this.#ids.push(id);
    const text = this.#decode(this.#ids);
    const piece = this.#send(text, complete(text).length);
    if (complete(text) === text && this.#ids.length > 2 * CONTEXT) this.#keep(CONTEXT);
    else if (this.#ids.length > MOST_WAITING) this.#keep(2 * CONTEXT);
    return piece;
  }

  /** Forgets all tokens but the last. */
  #keep(count) {
    this.#ids = this.#ids.slice(-count);
    this.#sent = complete(this.#decode(this.#ids));
  }

  /** The text that waited for more. */
  end() {
    const text = this.#decode(this.#ids);
    return this.#send(text, text.length);
  }

  #send(text, end) {
    const piece = text.slice(commonLength(this.#sent, text), end);
    // What was sent is never taken back, also where a decoder writes the text before differently now.
    if (end >= this.#sent.length) this.#sent = text.slice(0, end);
    return piece;
  }
}

/** Whether a text ends with the first half of a character. */
const isCut = (text) => /[\uD800-\uDBFF]$/.test(text);

/** Without the character at the end that is not complete. */
const complete = (text) => (text.endsWith(INCOMPLETE) || isCut(text) ? text.slice(0, -1) : text);

/** Decoders rarely change what they said before. Where they do, the text goes on after what is equal. */
function commonLength(sent, text) {
  if (text.startsWith(sent)) return sent.length;
  const length = Math.min(sent.length, text.length);
  return isCut(text.slice(0, length)) ? length - 1 : length;
}

module.exports = { Detokenizer, hides };
