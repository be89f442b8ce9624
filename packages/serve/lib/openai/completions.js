'use strict';

// POST /v1/completions

const { constraintOf } = require('./constraints.js');
const { invalid } = require('./errors.js');
const { is, read, readCommon, readFlag, readMaxTokens, requireCharacters } = require('./requests.js');
const { tokenOf } = require('./chat.js');

/** Tokens that OpenAI's API gives by default. */
const USUAL = 16;

const isTokens = (value) => is.array(value) && value.length > 0 && value.every(is.whole(0, 2 ** 31 - 1));

/**
 * A text or tokens, or several.
 * @returns {(string | number[])[]}
 */
function readTexts(body, name, most, limits) {
  const given = body[name] ?? undefined;
  if (given === undefined) throw invalid(name, `${name}: found none, allowed a string, an array of strings, or tokens.`, 'missing_required_parameter');
  const list = is.string(given) || isTokens(given) ? [given] : given;
  const isRight = is.array(list) && list.length > 0 && (list.every(is.string) || list.every(isTokens));
  if (!isRight) throw invalid(name, `${name}: allowed a string, an array of strings, an array of tokens, or an array of those.`, 'invalid_type');
  if (list.length > most) throw invalid(name, `${name}: found ${list.length} texts, allowed at most ${most}.`);
  requireCharacters(name, list.filter(is.string), limits);
  return list;
}

/** The tokens of prompts. Those of a client must be some of the model's. */
async function tokensOf(model, prompts, signal) {
  const unknown = prompts.filter(is.array).flat().find((id) => !model.tokenizer.has(id));
  if (unknown !== undefined) throw invalid('prompt', `prompt: found the token ${unknown}, which the model does not have.`);
  const texts = await model.encode(prompts.filter(is.string), { special: true, param: 'prompt', signal });
  return prompts.map((prompt) => (is.string(prompt) ? orBeginning(model, texts.shift()) : prompt));
}

/** Nothing is a prompt for a model that has a token for the beginning, or one for the end. */
function orBeginning(model, ids) {
  if (ids.length > 0) return ids;
  const begin = model.tokenizer.idOf(model.tokenizer.named.bos_token) ?? model.ends[0];
  if (begin === undefined) throw invalid('prompt', 'prompt: found an empty text, allowed one with at least one token.');
  return [begin];
}

/**
 * @param {object} body
 * @param {import('./language-model.js').LanguageModel} model
 * @param {typeof import('./requests.js').LIMITS} limits
 * @param {AbortSignal} signal
 */
async function readCompletion(body, model, limits, signal) {
  const { format, ...common } = readCommon(body, model, limits);
  const texts = readTexts(body, 'prompt', limits.prompts, limits);
  if (texts.length * common.count > limits.choices) throw invalid('prompt', `prompt: found ${texts.length} prompts with ${common.count} choices each, allowed at most ${limits.choices} choices.`);
  const best = read(body, 'best_of', is.whole(1), 'a whole number from 1') ?? common.count;
  if (best !== common.count) throw invalid('best_of', 'best_of: allowed the same number as n only.');
  const alternatives = read(body, 'logprobs', is.whole(0, 20), 'a whole number from 0 to 20');
  const echo = readFlag(body, 'echo');
  if (echo && alternatives !== undefined) throw invalid('echo', 'echo: not allowed with logprobs: those of the prompt are not computed.');
  const prompts = await tokensOf(model, texts, signal);
  const room = Math.min(...prompts.map((prompt) => model.roomFor(prompt, 'prompt')));
  const maxTokens = readMaxTokens(body, ['max_tokens'], { least: 0, usual: USUAL, room });
  const echoes = echo ? texts.map((text, i) => (is.string(text) ? text : model.tokenizer.decode(prompts[i]))) : undefined;
  const constraint = await constraintOf(model, format);
  return { ...common, prompts, maxTokens, constraint, alternatives: alternatives ?? 0, logprobs: alternatives !== undefined, echoes };
}

/** The log-probabilities of a piece. Texts of equal tokens may be equal: the more probable counts. */
function logprobsOf(tokenizer, tokens, offset) {
  const list = tokens.map((token) => tokenOf(tokenizer, token));
  let at = offset;
  const offsets = list.map(({ token }) => {
    const here = at;
    at += token.length;
    return here;
  });
  return {
    tokens: list.map(({ token }) => token),
    token_logprobs: list.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) => (top === undefined ? null : Object.fromEntries(top.map((one) => tokenOf(tokenizer, one)).reverse().map(({ token, logprob }) => [token, logprob])))),
    text_offset: offsets,
    end: at,
  };
}

/** Keeps where the text of each choice is. */
class Offsets {
  #ends = new Map();

  constructor(tokenizer) {
    this.tokenizer = tokenizer;
  }

  logprobs(index, tokens) {
    const { end, ...logprobs } = logprobsOf(this.tokenizer, tokens, this.#ends.get(index) ?? 0);
    this.#ends.set(index, end);
    return logprobs;
  }
}

const emptyLogprobs = () => ({ tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] });

/** The text that a choice begins with. */
const echoOf = ({ echoes, count }, index) => echoes?.[Math.floor(index / count)] ?? '';

async function answer(pieces, { parsed, about, tokenizer }) {
  const offsets = new Offsets(tokenizer);
  const choices = Array.from({ length: parsed.count * parsed.prompts.length }, (_, index) => ({ index, text: echoOf(parsed, index), logprobs: parsed.logprobs ? emptyLogprobs() : null, finish_reason: parsed.maxTokens === 0 ? 'length' : null }));
  for await (const { sequence: index, text, tokens, finish } of pieces) {
    const choice = choices[index];
    choice.text += text;
    if (parsed.logprobs) for (const [name, list] of Object.entries(offsets.logprobs(index, tokens))) choice.logprobs[name].push(...list);
    if (finish !== undefined) choice.finish_reason = finish;
  }
  return { ...about, object: 'text_completion', choices };
}

async function* stream(pieces, { parsed, about, tokenizer }) {
  const offsets = new Offsets(tokenizer);
  const begun = new Set();
  const chunk = (index, text, logprobs = null, finish = null) => ({ ...about, object: 'text_completion', choices: [{ index, text, logprobs, finish_reason: finish }] });
  if (parsed.maxTokens === 0) {
    for (let index = 0; index < parsed.count * parsed.prompts.length; index++) yield chunk(index, echoOf(parsed, index), null, 'length');
  }
  for await (const { sequence: index, text, tokens, finish } of pieces) {
    const echo = begun.has(index) ? '' : echoOf(parsed, index);
    begun.add(index);
    const logprobs = parsed.logprobs && tokens.length > 0 ? offsets.logprobs(index, tokens) : null;
    yield chunk(index, echo + text, logprobs, finish ?? null);
  }
}

module.exports = { answer, prefix: 'cmpl-', read: readCompletion, readTexts, stream, streamed: 'text_completion' };
