'use strict';

// Detokenizer: makes text of tokens, one by one, as far as no later token can change it.

/** How many tokens before a token may decide what it looks like, such as whether there is a space before it. */
const CONTEXT = 4;
const INCOMPLETE = '\uFFFD';
const AS_IT_IS = { skip_special_tokens: false, clean_up_tokenization_spaces: false };

/** Tells the tokens that have no text: special ones, and those that the tokenizer does not know. */
function hides(tokenizer) {
  const known = new Map();
  const isHidden = (id) => {
    try {
      const [text, shown] = [false, true].map((skips) => tokenizer.decode([id], { ...AS_IT_IS, skip_special_tokens: skips }));
      return typeof text !== 'string' || (text !== '' && shown === '');
    } catch {
      return true;
    }
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
    return ids.length === 0 ? '' : this.#tokenizer.decode(ids, AS_IT_IS);
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
    if (!text.endsWith(INCOMPLETE) && this.#ids.length > 2 * CONTEXT) {
      this.#ids = this.#ids.slice(-CONTEXT);
      this.#sent = this.#decode(this.#ids);
    }
    return piece;
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

/** Without the character at the end that is not complete. */
const complete = (text) => (text.endsWith(INCOMPLETE) ? text.slice(0, -1) : text);

/** Decoders rarely change what they said before. Where they do, the text goes on after what is equal. */
function commonLength(sent, text) {
  if (text.startsWith(sent)) return sent.length;
  return Math.min(sent.length, text.length);
}

module.exports = { Detokenizer, hides };
