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
const { isToken, tokensOf } = require('./tokens.js');

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
  const label = modelOf(model)?.label ?? '';
  requireTexts(label, tokenizer, options);
  const { stop, isHidden = hides(tokenizer), until, ...others } = options;
  const prompts = promptsOf(label, tokenizer, prompt);
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
      const said = until?.(token);
      return isEnd || said;
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
function encoded(label, tokenizer, text, special = true) {
  const found = tokenizer.encode(text, { add_special_tokens: special });
  const tokens = tokensOf(found) ?? tokensOf(found?.ids);
  if (tokens === undefined) throw typeError(NAME, label, `tokenizer: found ${show(found)} as the result of encode(), allowed an array of tokens, or an object with such ids`);
  const other = tokens.find((id) => !isToken(id));
  if (other !== undefined) throw typeError(NAME, label, `tokenizer: found ${show(other)} in the result of encode(), allowed whole numbers from 0 to 2147483647`);
  return tokens;
}

/** The text of the messages of a chat. */
function templated(label, tokenizer, messages) {
  if (typeof tokenizer.apply_chat_template !== 'function') throw typeError(NAME, label, 'tokenizer: found one without apply_chat_template(), allowed one with it if the prompt has messages of a chat');
  const text = tokenizer.apply_chat_template(messages, { tokenize: false, add_generation_prompt: true });
  if (typeof text !== 'string') throw typeError(NAME, label, `tokenizer: found ${show(text)} as the result of apply_chat_template(), allowed a string`);
  return text;
}

/** Lists of tokens, whatever the prompt is. `generate` checks them. */
function promptsOf(label, tokenizer, prompt) {
  if (typeof prompt === 'string') return [encoded(label, tokenizer, prompt)];
  if (Array.isArray(prompt) && prompt.length > 0) {
    // A template writes the tokens that begin a text.
    if (prompt.every(isMessage)) return [encoded(label, tokenizer, templated(label, tokenizer, prompt), false)];
    if (prompt.every((one) => typeof one === 'string')) return prompt.map((text) => encoded(label, tokenizer, text));
    if (prompt.every((one) => typeof one === 'object')) return prompt;
  }
  return Array.isArray(prompt) || ArrayBuffer.isView(prompt) ? [prompt] : prompt;
}

/** Stop strings, and the stops that `generate` knows. */
function stopsOf(stop = []) {
  const list = typeof stop === 'object' && typeof stop?.[Symbol.iterator] === 'function' ? [...stop] : [stop];
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
