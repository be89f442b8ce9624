'use strict';

// Makes text of tokens, one by one, as far as no later token can change it.

/** How many tokens before a token may decide what it looks like, such as whether there is a space before it. */
const CONTEXT = 4;
const INCOMPLETE = '\uFFFD';

class Detokenizer {
  #tokenizer;
  #isHidden;
  /** The tokens of the window: those that only give context, and those whose text is not complete. */
  #ids;
  #sent;

  /**
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {{prompt?: readonly number[], isHidden?: (id: number) => boolean}} [options] the tokens before, whose text is not repeated, and
   * which tokens have no text
   */
  constructor(tokenizer, { prompt = [], isHidden = (id) => tokenizer.isSpecial(id) } = {}) {
    this.#tokenizer = tokenizer;
    this.#isHidden = isHidden;
    this.#ids = prompt.slice(-2 * CONTEXT).filter((id) => this.#isShown(id)).slice(-CONTEXT);
    this.#sent = complete(tokenizer.decode(this.#ids));
  }

  #isShown(id) {
    return this.#tokenizer.has(id) && !this.#isHidden(id);
  }

  /**
   * Adds a token.
   * @returns {string} the text that is complete now: never a part of a character
   */
  push(id) {
    if (!this.#isShown(id)) return '';
    this.#ids.push(id);
    const text = this.#tokenizer.decode(this.#ids);
    const piece = this.#send(text, complete(text).length);
    if (!text.endsWith(INCOMPLETE) && this.#ids.length > 2 * CONTEXT) {
      this.#ids = this.#ids.slice(-CONTEXT);
      this.#sent = this.#tokenizer.decode(this.#ids);
    }
    return piece;
  }

  /** The text that waited for more. */
  end() {
    const text = this.#tokenizer.decode(this.#ids);
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

/** Decoders rarely change what they said before. Where they do, the text goes on behind what is equal. */
function commonLength(sent, text) {
  if (text.startsWith(sent)) return sent.length;
  return Math.min(sent.length, text.length);
}

module.exports = { Detokenizer };
