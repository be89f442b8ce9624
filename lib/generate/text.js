'use strict';

// generateText(): generate(), with texts in place of tokens.

const { typeError } = require('../errors.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { show } = require('../show.js');
const { NAME } = require('./cache.js');
const { withTokenizer } = require('./constraint.js');
const { Detokenizer, hides } = require('./detokenizer.js');
const { generate, withKnown } = require('./generate.js');
const { StopStrings } = require('./stop-strings.js');

/**
 * A token with the place of its text.
 * @typedef {{token: import('../generate.d.ts').GeneratedToken, begin: number, end: number}} Placed
 */

/** The text of one sequence: what is complete, and up to which token it goes. */
class Passage {
  #detokenizer;
  #stops;
  /** Tokens whose text waits. @type {Placed[]} */
  #waiting = [];
  #length = 0;
  #sent = 0;
  /** What has come since the last look. */
  #text = '';
  /** @type {import('../generate.d.ts').GeneratedToken[]} */
  #tokens = [];
  count = 0;

  /**
   * @param {Detokenizer} detokenizer
   * @param {StopStrings} stops
   */
  constructor(detokenizer, stops) {
    this.#detokenizer = detokenizer;
    this.#stops = stops;
  }

  /** Adds a token. @returns {boolean} whether a stop string ends the text */
  push(token) {
    this.count++;
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
    // Those without text, such as the one that ends it; of those after a stop string, the one that it begins in.
    const kept = this.#stops.found === undefined ? this.#waiting : this.#waiting.filter(({ begin, end }) => begin < this.#sent && end > this.#sent);
    this.#tokens.push(...kept.map(({ token }) => token));
    this.#waiting = [];
  }

  /** Tokens come with the text that they complete. */
  #add(text) {
    if (text === '') return;
    this.#text += text;
    this.#sent += text.length;
    let count = 0;
    while (count < this.#waiting.length && this.#waiting[count].end <= this.#sent) count++;
    this.#tokens.push(...this.#waiting.splice(0, count).map(({ token }) => token));
  }

  /** What has come since the last look; nothing if that is nothing. */
  take() {
    const [text, tokens] = [this.#text, this.#tokens];
    [this.#text, this.#tokens] = ['', []];
    return text === '' && tokens.length === 0 ? undefined : { text, tokens };
  }
}

/**
 * @param {import('../onnx.d.ts').OnnxModel} model
 * @param {import('../generate.d.ts').TextTokenizer} tokenizer
 * @param {unknown} prompt a text, messages of a chat, or tokens; or several texts or lists of tokens
 * @param {import('../generate.d.ts').GenerateTextOptions} [options]
 * @returns {import('../generate.d.ts').Generation<import('../generate.d.ts').GeneratedText>}
 */
function generateText(model, tokenizer, prompt, options = {}) {
  requireTexts(modelOf(model)?.label ?? '', tokenizer, options);
  const { stop, isHidden = hides(tokenizer), until, ...others } = options;
  const prompts = promptsOf(tokenizer, prompt);
  const { strings, tokens } = stopsOf(stop);
  const ends = endsOf(tokenizer);
  /** @type {Passage[]} */
  const passages = [];
  const generating = {
    ...others,
    constraint: withTokenizer(others.constraint, tokenizer, ends),
    stop: [...tokens, ...ends],
    until: (token) => {
      const isEnd = passages[token.sequence].push(token);
      return until?.(token) === true || isEnd;
    },
  };
  // It checks everything else.
  const generated = generate(model, prompts, generating);
  const hidden = (id) => ends.includes(id) || isHidden(id);
  for (const one of prompts) {
    for (let i = 0; i < (others.sequences ?? 1); i++) passages.push(new Passage(new Detokenizer(tokenizer, { prompt: one, isHidden: hidden }), new StopStrings(strings)));
  }
  return withKnown(pieces(generated, passages), generated);
}

function requireTexts(label, tokenizer, options) {
  if (typeof tokenizer?.encode !== 'function' || typeof tokenizer.decode !== 'function') {
    throw typeError(NAME, label, `tokenizer: found ${show(tokenizer)}, allowed an object with encode() and decode(), such as a tokenizer of transformers.js`);
  }
  if (options === null || typeof options !== 'object') throw typeError(NAME, label, `options: found ${show(options)}, allowed an object`);
  for (const name of ['isHidden', 'until']) {
    if (options[name] !== undefined && typeof options[name] !== 'function') throw typeError(NAME, label, `options: ${name}: found ${show(options[name])}, allowed a function`);
  }
}

async function* pieces(generated, passages) {
  for await (const { sequence, finish } of generated) {
    const passage = passages[sequence];
    if (finish !== undefined) passage.end();
    const piece = passage.take();
    if (piece === undefined && finish === undefined) continue;
    const { text, tokens } = piece ?? { text: '', tokens: [] };
    yield { text, sequence, tokens, count: passage.count, ...(finish && { finish }) };
  }
}

const isMessage = (value) => value !== null && typeof value === 'object' && typeof value.role === 'string';

/** The tokens of a text. */
function encoded(tokenizer, text, special = true) {
  const found = tokenizer.encode(text, { add_special_tokens: special });
  return Array.isArray(found) ? found : found.ids;
}

/** Lists of tokens, whatever the prompt is. `generate` checks them. */
function promptsOf(tokenizer, prompt) {
  if (typeof prompt === 'string') return [encoded(tokenizer, prompt)];
  if (Array.isArray(prompt) && prompt.length > 0) {
    // A template writes the tokens that begin a text.
    if (prompt.every(isMessage)) return [encoded(tokenizer, tokenizer.apply_chat_template(prompt, { tokenize: false, add_generation_prompt: true }), false)];
    if (prompt.every((one) => typeof one === 'string')) return prompt.map((text) => encoded(tokenizer, text));
    if (prompt.every((one) => typeof one === 'object')) return prompt;
  }
  return Array.isArray(prompt) || ArrayBuffer.isView(prompt) ? [prompt] : prompt;
}

/** Stop strings, and the stops that `generate` knows. */
function stopsOf(stop = []) {
  const list = typeof stop === 'object' && stop !== null ? [...stop] : [stop];
  const isString = (one) => typeof one === 'string';
  return { strings: list.filter(isString), tokens: list.filter((one) => !isString(one)) };
}

/** The token with which the tokenizer's model ends a text. */
function endsOf(tokenizer) {
  const named = tokenizer.config?.eos_token;
  const id = tokenizer.eos_token_id ?? (named === undefined ? undefined : tokenizer.token_to_id?.(named?.content ?? named));
  return Number.isInteger(id) && id >= 0 ? [id] : [];
}

module.exports = { generateText };
