'use strict';

// A decoder with its tokenizer and chat template: prompts → choices, piece by piece.

const { GenerationCache, generate, generateText } = require('webnn-node/generate');
const { ChatTemplate } = require('./chat-template.js');
const { mostCharacters, tooLong } = require('./errors.js');
const { MARKS } = require('./tool-calls.js');

/** The bytes of earlier conversations that are kept, unless the server's options say how many. */
const PROMPT_CACHE = 2 ** 30;

/** Fewer equal tokens are not worth another conversation's memory. */
const MIN_TOKENS = 16;

/**
 * How texts are continued.
 * @typedef {object} Generation
 * @property {'prompt'} [speculate] where tokens are guessed from
 * @property {number} [promptCache] bytes of earlier conversations that are kept
 */

/**
 * A piece of a choice. `cached` is the number of the prompt's tokens that were not computed again.
 * @typedef {import('webnn-node/generate').GeneratedText & {cached: number}} Piece
 */

class LanguageModel {
  kind = 'generate';

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./folder.js').HubFolder} folder
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {import('./tokenizing.js').Tokenizing} tokenizing
   * @param {Generation} [generation]
   */
  constructor(model, folder, tokenizer, tokenizing, { speculate, promptCache = PROMPT_CACHE } = {}) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.tokenizing = tokenizing;
    /** Not named where there are none: a model may have no way to check them. */
    this.guesses = speculate === undefined ? {} : { speculate };
    /** The tokenizer as @webnn-node/constrain reads it. */
    this.vocabulary = { tokenizer: folder.tokenizer, encode: (text, options) => tokenizer.encode(text, options) };
    /** A conversation goes on from what any earlier one has in common with it. */
    this.cache = new GenerationCache({ maxBytes: promptCache, minTokens: MIN_TOKENS });
    this.template = new ChatTemplate(folder.chatTemplates, tokenizer.named);
    this.maxLength = folder.maxLength;
    const { config, generation } = folder;
    const ends = [generation.eos_token_id, config.eos_token_id, config.text_config?.eos_token_id, tokenizer.idOf(tokenizer.named.eos_token)].flat();
    /** Tokens that end a text. */
    this.ends = [...new Set(ends.filter((id) => Number.isInteger(id) && id >= 0))];
    /** What generation_config.json says about sampling. */
    this.usual = generation;
    this.marks = new Set(MARKS.map((mark) => tokenizer.idOf(mark)).filter((id) => id !== undefined));
  }

  /**
   * The tokens of a text.
   * @param {string[]} texts
   * @param {{special: boolean, param: string, signal: AbortSignal}} options
   * @returns {Promise<number[][]>}
   */
  async encode(texts, { special, param, signal }) {
    const long = texts.find((text) => text.length > mostCharacters(this.maxLength));
    if (long !== undefined) throw tooLong(param, long.length, this.maxLength, 'characters');
    const rows = await this.tokenizing.encode(texts.map((text) => ({ text, special })), signal);
    return rows.map(({ ids }) => ids);
  }

  /** The positions that are left behind a prompt, which must be one at least. */
  roomFor(prompt, param) {
    if (prompt.length >= this.maxLength) throw tooLong(param, prompt.length, this.maxLength);
    return this.maxLength - prompt.length;
  }

  /**
   * Continues prompts. Choices of the first prompt come first.
   * @param {number[][]} prompts
   * @param {object} options
   * @param {number} options.count choices of each prompt
   * @param {number} options.maxTokens
   * @param {string[]} options.stop
   * @param {object} options.sampling options of `generate`
   * @param {import('webnn-node/generate').TokenConstraint} [options.constraint]
   * @param {number} [options.alternatives] how many of the most probable tokens are told
   * @param {boolean} [options.showsMarks] whether the marks of tools' calls are a part of the text
   * @param {AbortSignal} options.signal
   * @returns {AsyncGenerator<Piece, void, void>}
   */
  async *continue(prompts, { count, maxTokens, stop, sampling, constraint, alternatives = 0, showsMarks = false, signal }) {
    const ends = new Set(this.ends);
    const isHidden = (id) => ends.has(id) || (this.tokenizer.isSpecial(id) && !(showsMarks && this.marks.has(id)));
    const options = {
      ...sampling,
      ...this.guesses,
      maxNewTokens: maxTokens,
      sequences: count,
      stop: [...stop, ...this.ends],
      isHidden,
      topLogprobs: alternatives,
      constraint,
      cache: this.cache,
      signal,
    };
    const pieces = generateText(this.model, this.tokenizer, prompts, options);
    for await (const piece of pieces) yield { ...piece, cached: pieces.known.reduce((sum, count) => sum + count, 0) };
  }

  async warmUp() {
    const prompt = this.tokenizer.encode('a');
    const tokens = generate(this.model, prompt.length > 0 ? prompt : [0], { ...this.guesses, maxNewTokens: 2 });
    while (!(await tokens.next()).done);
  }

  destroy() {
    this.tokenizing.destroy();
    this.cache.destroy();
  }
}

module.exports = { LanguageModel };
