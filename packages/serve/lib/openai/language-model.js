'use strict';

// A decoder with its tokenizer and chat template: prompts → choices, piece by piece.

const { GenerationCache, generate } = require('webnn-node/generate');
const { finite, mostProbable } = require('./alternatives.js');
const { ChatTemplate } = require('./chat-template.js');
const { Conversations } = require('./conversations.js');
const { Detokenizer } = require('./detokenizer.js');
const { mostCharacters, tooLong } = require('./errors.js');
const { Stops } = require('./stops.js');
const { MARKS } = require('./tool-calls.js');

/** How much is kept of earlier conversations. */
const KEPT = { count: 16, tokens: 32_768 };

/**
 * A token with what is known about it.
 * @typedef {{id: number, logprob: number, alternatives: {id: number, logprob: number}[]}} Logged
 *
 * A piece of a choice.
 * @typedef {{index: number, text: string, tokens: Logged[], count: number, cached: number, finish?: 'stop' | 'length'}} Piece `count` is the
 * number of tokens of the choice so far, `cached` that of the prompt's tokens that were not computed again
 */

/** The text of one sequence: what is complete, and up to which token it goes. */
class Choice {
  #detokenizer;
  #stops;
  /** Tokens whose text waits, with the length of all text up to them. @type {{token: Logged, end: number}[]} */
  #waiting = [];
  #length = 0;
  #sent = 0;
  /** What has not been given away. */
  #piece = { text: '', tokens: [] };
  /** All tokens so far. @type {number[]} */
  ids = [];

  constructor(detokenizer, stops) {
    this.#detokenizer = detokenizer;
    this.#stops = stops;
  }

  /** Adds a token. @returns {boolean} whether a stop string ends the text */
  push(token) {
    this.ids.push(token.id);
    const text = this.#detokenizer.push(token.id);
    const begin = this.#length;
    this.#length += text.length;
    this.#waiting.push({ token, begin, end: this.#length });
    this.#add(this.#stops.push(text));
    return this.#stops.found !== undefined;
  }

  /** No more tokens come. */
  end() {
    const rest = this.#detokenizer.end();
    this.#length += rest.length;
    this.#add(this.#stops.push(rest));
    this.#add(this.#stops.end());
    // Those that have no text, such as the one that ends it, and one that a stop string begins in.
    const kept = this.#stops.found === undefined ? this.#waiting : this.#waiting.filter(({ begin, end }) => begin < this.#sent && end > this.#sent);
    this.#piece.tokens.push(...kept.map(({ token }) => token));
    this.#waiting = [];
  }

  #add(text) {
    this.#piece.text += text;
    this.#sent += text.length;
    let count = 0;
    while (count < this.#waiting.length && this.#waiting[count].end <= this.#sent) count++;
    this.#piece.tokens.push(...this.#waiting.splice(0, count).map(({ token }) => token));
  }

  /** What has come since the last call. */
  take() {
    const piece = this.#piece;
    this.#piece = { text: '', tokens: [] };
    return piece;
  }
}

/** A token among the most probable ones has the number that it has there. */
function logged({ id, logprob }, alternatives = []) {
  const same = alternatives.find((one) => one.id === id);
  return { id, logprob: same?.logprob ?? finite(logprob), alternatives };
}

class LanguageModel {
  kind = 'generate';

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./folder.js').HubFolder} folder
   * @param {import('./tokenizer.js').TextTokenizer} tokenizer
   * @param {import('./tokenizing.js').Tokenizing} tokenizing
   */
  constructor(model, folder, tokenizer, tokenizing) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.tokenizing = tokenizing;
    this.conversations = new Conversations(KEPT);
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
   * @param {object} wish
   * @param {number} wish.count choices of each prompt
   * @param {number} wish.maxTokens
   * @param {string[]} wish.stop
   * @param {object} wish.sampling options of `generate`
   * @param {number} [wish.alternatives] how many of the most probable tokens are told
   * @param {boolean} [wish.showsMarks] whether the marks of tools' calls are a part of the text
   * @param {AbortSignal} wish.signal
   * @returns {AsyncGenerator<Piece, void, void>}
   */
  async *continue(prompts, { count, maxTokens, stop, sampling, alternatives = 0, showsMarks = false, signal }) {
    const ends = new Set(this.ends);
    const isHidden = (id) => ends.has(id) || (this.tokenizer.isSpecial(id) && !(showsMarks && this.marks.has(id)));
    const choices = prompts.flatMap((prompt) => Array.from({ length: count }, () => new Choice(new Detokenizer(this.tokenizer, { prompt, isHidden }), new Stops(stop))));
    const probable = new Map();
    const options = {
      ...sampling,
      maxNewTokens: maxTokens,
      sequences: count,
      stop: this.ends,
      until: (token) => choices[token.sequence].push(logged(token, probable.get(token.sequence))),
      signal,
      ...(alternatives > 0 && { logits: (logits, { sequence }) => void probable.set(sequence, mostProbable(logits, alternatives)) }),
    };
    for await (const { token, cached } of this.#tokens(prompts, choices, options)) {
      const { sequence: index, finish } = token;
      const choice = choices[index];
      if (finish !== undefined) choice.end();
      const { text, tokens } = choice.take();
      if (text !== '' || tokens.length > 0 || finish !== undefined) yield { index, text, tokens, count: choice.ids.length, cached, ...(finish && { finish }) };
    }
  }

  /** The tokens of `generate`. A single sequence continues an earlier conversation, if its prompt begins like one. */
  async *#tokens(prompts, choices, options) {
    const [prompt] = prompts;
    const conversation = choices.length === 1 ? this.conversations.take(prompt) : { cache: new GenerationCache() };
    const { cache } = conversation;
    try {
      for await (const token of this.#generate(prompts, { ...options, cache })) yield { token, cached: cache.known.reduce((a, b) => a + b, 0) };
    } finally {
      if (choices.length === 1) this.conversations.give(conversation, [...prompt, ...choices[0].ids]);
      else cache.destroy();
    }
  }

  /** Where the memory does not suffice, earlier conversations are forgotten. */
  async *#generate(prompts, options) {
    const tokens = generate(this.model, prompts, options);
    let first;
    try {
      first = await tokens.next();
    } catch (error) {
      if (error?.name !== 'QuotaExceededError' || !this.conversations.clear()) throw error;
      yield* generate(this.model, prompts, options);
      return;
    }
    try {
      if (!first.done) yield first.value;
      yield* tokens;
    } finally {
      // Also for who wants no more than the first.
      await tokens.return();
    }
  }

  async warmUp() {
    const prompt = this.tokenizer.encode('a');
    const tokens = generate(this.model, prompt.length > 0 ? prompt : [0], { maxNewTokens: 2 });
    while (!(await tokens.next()).done);
  }

  destroy() {
    this.tokenizing.destroy();
    this.conversations.destroy();
  }
}

module.exports = { Choice, LanguageModel };
