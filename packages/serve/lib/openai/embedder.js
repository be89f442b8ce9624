'use strict';

// Texts → vectors, as sentence-transformers makes them.

const { Encoder } = require('./encoder.js');
const { invalid, mostCharacters, tooLong } = require('./errors.js');
const { normalize, poolingOf } = require('./pooling.js');

/** Outputs by preference: whole sentences' vectors first, which exporters of sentence-transformers add. */
const SENTENCES = ['sentence_embedding', 'sentence_embeddings', 'text_embeds', 'embeddings'];
const TOKENS = ['token_embeddings', 'last_hidden_state'];

class Embedder {
  kind = 'embed';
  #tokenizer;
  #tokenizing;
  #encoder;
  #normalizes;
  #prompts;
  maxLength;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./folder.js').HubFolder} folder
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {import('./tokenizing.js').Tokenizing} tokenizing
   */
  constructor(model, folder, tokenizer, tokenizing) {
    const output = Embedder.outputOf(model);
    const { pooling, normalize: normalizes = true, dense = false } = folder.modules ?? {};
    const isPooled = SENTENCES.includes(output);
    if (dense && !isPooled) throw new Error(`${folder.folder}: modules.json has a Dense layer, and the network has no output sentence_embedding`);
    const pool = isPooled ? undefined : poolingOf(pooling);
    const read = isPooled ? rowOf : ({ data, dims }, count) => pool(data, 0, count, dims.at(-1));
    this.#tokenizer = tokenizer;
    this.#tokenizing = tokenizing;
    this.#normalizes = normalizes;
    this.#prompts = { all: folder.prompts, usual: folder.defaultPrompt };
    this.maxLength = folder.maxLength;
    const pad = tokenizer.idOf(tokenizer.named.pad_token) ?? folder.config.pad_token_id ?? 0;
    this.#encoder = new Encoder(model, { output, pad, maxLength: folder.maxLength, read });
  }

  /** The output with the vectors, if the network has one. */
  static outputOf({ outputs }) {
    return [...SENTENCES, ...TOKENS].find((name) => outputs.some((output) => output.name === name));
  }

  /** What is put before a text. */
  promptOf(name = this.#prompts.usual) {
    if (name === undefined) return '';
    if (!Object.hasOwn(this.#prompts.all, name)) {
      throw invalid('prompt_name', `prompt_name: found ${JSON.stringify(name)}, allowed ${Object.keys(this.#prompts.all).map((one) => JSON.stringify(one)).join(', ') || 'none'}.`);
    }
    return String(this.#prompts.all[name]);
  }

  /**
   * The tokens of inputs.
   * @param {(string | number[])[]} inputs
   * @param {{truncate?: boolean, prompt?: string, param?: string, signal?: AbortSignal}} [options]
   * @returns {Promise<{ids: number[], types?: number[]}[]>}
   */
  async tokensOf(inputs, { truncate = false, prompt = '', param = 'input', signal } = {}) {
    const isText = (input) => typeof input === 'string';
    const most = mostCharacters(this.maxLength);
    const long = inputs.find((input) => isText(input) && input.length > most);
    if (long !== undefined && !truncate) throw tooLong(param, long.length, this.maxLength, 'characters');
    const texts = await this.#tokenizing.encode(inputs.filter(isText).map((text) => ({ text: prompt + text.slice(0, most) })), signal);
    return inputs.map((input) => this.#fitting(isText(input) ? texts.shift() : { ids: input }, { truncate, param, tail: isText(input) ? this.#tokenizer.tail(false) : 0 }));
  }

  /** A row that the network takes. */
  #fitting(row, { truncate, param, tail }) {
    const { ids, types } = row;
    const unknown = ids.find((id) => !this.#tokenizer.has(id));
    if (unknown !== undefined) throw invalid(param, `${param}: found the token ${unknown}, which the model does not have.`);
    if (ids.length === 0) throw invalid(param, `${param}: found a text without tokens, allowed a text with at least one.`);
    if (ids.length <= this.maxLength) return row;
    if (!truncate) throw tooLong(param, ids.length, this.maxLength);
    const shorten = (list) => [...list.slice(0, this.maxLength - tail), ...list.slice(list.length - tail)];
    return { ids: shorten(ids), types: types && shorten(types) };
  }

  /**
   * @param {{ids: number[], types?: number[]}} row
   * @param {{dimensions?: number, normalize?: boolean, signal?: AbortSignal}} [options]
   * @returns {Promise<Float32Array>}
   */
  async embed(row, { dimensions, normalize: wanted = this.#normalizes, signal } = {}) {
    const vector = await this.#encoder.run(row, signal);
    if (dimensions === undefined || dimensions === vector.length) return wanted ? normalize(vector) : vector;
    if (dimensions > vector.length) throw invalid('dimensions', `dimensions: found ${dimensions}, allowed at most ${vector.length}.`);
    return normalize(vector.slice(0, dimensions));
  }

  async warmUp() {
    const [row] = await this.tokensOf(['a']);
    await this.embed(row);
  }

  destroy() {
    this.#tokenizing.destroy();
  }
}

const rowOf = ({ data }) => Float32Array.from(data);

module.exports = { Embedder };
