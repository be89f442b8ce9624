'use strict';

// A cross-encoder: a query and a text → how well they fit.

const { Encoder } = require('./encoder.js');
const { tooLong } = require('./errors.js');

class Reranker {
  kind = 'rerank';
  #tokenizer;
  #encoder;
  #maxLength;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./folder.js').HubFolder} folder
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   */
  constructor(model, folder, tokenizer) {
    this.#tokenizer = tokenizer;
    this.#maxLength = folder.maxLength;
    const pad = tokenizer.idOf(tokenizer.named.pad_token) ?? folder.config.pad_token_id ?? 0;
    const read = ({ data, dims }, row) => data[row * dims.slice(1).reduce((a, b) => a * b, 1)];
    this.#encoder = new Encoder(model, { output: 'logits', pad, maxLength: folder.maxLength, read });
  }

  /**
   * The tokens of a query and a text. Of a pair that is too long the text loses its end, if that is allowed.
   * @param {string} query
   * @param {string} text
   * @param {{truncate?: boolean, param?: string}} [options]
   */
  tokensOf(query, text, { truncate = false, param = 'documents' } = {}) {
    const row = this.#tokenizer.encodePair(query, text);
    const count = row.ids.length;
    if (count <= this.#maxLength) return row;
    const tail = this.#tokenizer.tail(true);
    const alone = this.#tokenizer.encodePair(query, '').ids.length;
    if (alone + tail > this.#maxLength) throw tooLong('query', alone, this.#maxLength);
    if (!truncate) throw tooLong(param, count, this.#maxLength, 'tokens with the query');
    const shorten = (list) => [...list.slice(0, this.#maxLength - tail), ...list.slice(count - tail)];
    return { ids: shorten(row.ids), types: shorten(row.types) };
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
    await this.score(this.tokensOf('a', 'a'));
  }
}

module.exports = { Reranker };
