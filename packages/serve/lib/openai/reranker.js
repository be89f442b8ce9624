'use strict';

// A cross-encoder: a query and a text → how well they fit.

const { Encoder } = require('./encoder.js');
const { mostCharacters, tooLong } = require('./errors.js');

class Reranker {
  kind = 'rerank';
  #tokenizer;
  #tokenizing;
  #encoder;
  maxLength;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./folder.js').HubFolder} folder
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {import('./tokenizing.js').Tokenizing} tokenizing
   */
  constructor(model, folder, tokenizer, tokenizing) {
    this.#tokenizer = tokenizer;
    this.#tokenizing = tokenizing;
    this.maxLength = folder.maxLength;
    const pad = tokenizer.idOf(tokenizer.named.pad_token) ?? folder.config.pad_token_id ?? 0;
    const read = ({ data: [logit] }) => logit;
    this.#encoder = new Encoder(model, { output: 'logits', pad, maxLength: folder.maxLength, read });
  }

  /**
   * The tokens of a query with each text. A text of a pair that is too long loses its end, if that is allowed.
   * @param {string} query
   * @param {string[]} texts
   * @param {{truncate?: boolean, param?: string, signal?: AbortSignal}} [options]
   */
  async tokensOf(query, texts, { truncate = false, param = 'documents', signal } = {}) {
    const most = mostCharacters(this.maxLength);
    if (query.length > most) throw tooLong('query', query.length, this.maxLength, 'characters');
    const long = texts.findIndex((text) => text.length > most);
    if (long >= 0 && !truncate) throw tooLong(`${param}[${long}]`, texts[long].length, this.maxLength, 'characters');
    const [alone, ...rows] = await this.#tokenizing.encode([{ text: query }, ...texts.map((text) => ({ text: query, pair: text.slice(0, most) }))], signal);
    const tail = this.#tokenizer.tail(true);
    if (alone.ids.length + tail > this.maxLength) throw tooLong('query', alone.ids.length, this.maxLength);
    return rows.map((row, i) => {
      const count = row.ids.length;
      if (count <= this.maxLength) return row;
      if (!truncate) throw tooLong(`${param}[${i}]`, count, this.maxLength, 'tokens with the query');
      const shorten = (list) => [...list.slice(0, this.maxLength - tail), ...list.slice(count - tail)];
      return { ids: shorten(row.ids), types: shorten(row.types) };
    });
  }

  /**
   * @param {{ids: number[], types?: number[]}} row
   * @param {AbortSignal} [signal]
   * @returns {Promise<number>} the logit
   */
  score(row, signal) {
    return this.#encoder.run(row, signal);
  }

  async warmUp() {
    const [row] = await this.tokensOf('a', ['a']);
    await this.score(row);
  }

  destroy() {
    this.#tokenizing.destroy();
  }
}

module.exports = { Reranker };
