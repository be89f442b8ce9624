'use strict';

// POST /v1/chat/completions

const { randomUUID } = require('node:crypto');
const { constraintOf, schemaOfCall } = require('./constraints.js');
const { invalid, unsupported } = require('./errors.js');
const { is, read, readCommon, readFlag, readMaxTokens, requireCharacters, shown } = require('./requests.js');
const { ToolCalls, forcedBy, formatOf } = require('./tool-calls.js');

const identifier = (prefix) => `${prefix}${randomUUID().replaceAll('-', '')}`;

/** The tools of a request; nothing if the model must not call any. */
function readTools(body, model, limits) {
  const tools = read(body, 'tools', is.array, 'an array');
  const choice = body.tool_choice ?? 'auto';
  if (tools === undefined || tools.length === 0) return undefined;
  if (tools.length > limits.tools) throw invalid('tools', `tools: found ${tools.length}, allowed at most ${limits.tools}.`);
  tools.forEach((tool, i) => {
    if (tool?.type !== 'function' || typeof tool.function?.name !== 'string') throw invalid(`tools[${i}]`, `tools[${i}]: allowed { type: 'function', function: { name, description, parameters } }.`);
  });
  if (choice === 'none') return undefined;
  const format = formatOf(model.template.sourceFor(true));
  if (format === undefined) throw unsupported('tools', "tools: the model's chat template has no place for tools.");
  const schemas = new Map(tools.map(({ function: { name, parameters } }) => [name, parameters ?? {}]));
  return { list: tools, format, schemas, forced: readForced(choice, format, schemas) };
}

/** The call that must be made, if one must: the end of the prompt, and the schema of the text. */
function readForced(choice, format, schemas) {
  const param = 'tool_choice';
  const named = choice?.function?.name;
  const isNamed = choice?.type === 'function' && is.string(named);
  if (choice === 'auto') return undefined;
  if (choice !== 'required' && !isNamed) throw unsupported(param, `tool_choice: found ${shown(choice)}, allowed 'auto', 'none', 'required', or { type: 'function', function: { name } }.`);
  if (isNamed && !schemas.has(named)) throw invalid(param, `tool_choice: found ${shown(named)}, allowed the name of one of the tools.`);
  const { prompt, key, isList } = forcedBy(format);
  const call = schemaOfCall(isNamed ? new Map([[named, schemas.get(named)]]) : schemas, key);
  const { $defs, ...one } = call;
  return { prompt, format: { schema: isList ? { type: 'array', items: one, minItems: 1, maxItems: 1, $defs } : call, param: 'tools' } };
}

function readLogprobs(body) {
  const wants = readFlag(body, 'logprobs');
  const alternatives = read(body, 'top_logprobs', is.whole(0, 20), 'a whole number from 0 to 20') ?? 0;
  if (alternatives > 0 && !wants) throw invalid('top_logprobs', 'top_logprobs: allowed with logprobs: true only.');
  return { wants, alternatives };
}

/** Variables for the template, as vLLM has them, such as `enable_thinking`. */
function readVariables(body) {
  const given = read(body, 'chat_template_kwargs', is.object, 'an object') ?? {};
  const effort = read(body, 'reasoning_effort', is.string, 'a string');
  return { ...(effort !== undefined && { reasoning_effort: effort }), ...given };
}

const textsOf = (messages) => messages.flatMap((message) => [message?.content].flat()).map((part) => (typeof part === 'string' ? part : part?.text)).filter(is.string);

/**
 * A request as the model takes it.
 * @param {object} body
 * @param {import('./language-model.js').LanguageModel} model
 * @param {typeof import('./requests.js').LIMITS} limits
 * @param {AbortSignal} signal
 */
async function readChat(body, model, limits, signal) {
  if (!model.template.exists) throw unsupported('model', 'The model has no chat template. Use /v1/completions.');
  const { format, ...common } = readCommon(body, model, limits);
  const messages = read(body, 'messages', is.array, 'an array of messages');
  if (messages === undefined || messages.length === 0) throw invalid('messages', 'messages: found none, allowed at least one.', 'missing_required_parameter');
  if (messages.length > limits.messages) throw invalid('messages', `messages: found ${messages.length}, allowed at most ${limits.messages}.`);
  requireCharacters('messages', textsOf(messages), limits);
  const tools = readTools(body, model, limits);
  const forced = tools?.forced;
  if (format !== undefined && tools !== undefined && forced === undefined) {
    throw invalid('response_format', "response_format: not allowed with tools and tool_choice 'auto': an answer is either JSON or a call. Set tool_choice to 'none' or 'required'.");
  }
  const logprobs = readLogprobs(body);
  const text = model.template.render(messages, { tools: tools?.list, more: readVariables(body) }) + (forced?.prompt ?? '');
  requireCharacters('messages', [text], limits);
  // The template writes the tokens that begin a text.
  const [prompt] = await model.encode([text], { special: false, param: 'messages', signal });
  const room = model.roomFor(prompt, 'messages');
  const usual = Math.min(limits.maxTokens, model.usual.max_new_tokens ?? Infinity);
  const maxTokens = readMaxTokens(body, ['max_completion_tokens', 'max_tokens'], { least: 1, usual, room });
  const constraint = await constraintOf(model, forced?.format ?? format);
  return { ...common, prompts: [prompt], maxTokens, tools, constraint, logprobs, alternatives: logprobs.alternatives, showsMarks: tools !== undefined };
}

/** JSON has no infinity. OpenAI's API says -9999 for a token that is very improbable. */
const LEAST = -9999;

/** A token as clients read it. */
const tokenOf = (tokenizer, { id, logprob }) => {
  const bytes = tokenizer.bytesOf(id);
  return { token: Buffer.from(bytes).toString(), logprob: logprob >= LEAST ? logprob : LEAST, bytes };
};

const logprobsOf = (tokenizer, tokens) => ({
  content: tokens.map((token) => ({ ...tokenOf(tokenizer, token), top_logprobs: (token.top ?? []).map((one) => tokenOf(tokenizer, one)) })),
  refusal: null,
});

/** Reads calls of tools out of the choices of a request. */
class Calls {
  #readers = new Map();
  #counts = new Map();

  constructor(tools) {
    this.tools = tools;
  }

  /** @param {import('./language-model.js').Piece} piece */
  read({ sequence: index, text, finish }) {
    if (this.tools === undefined) return { content: text, calls: [] };
    if (!this.#readers.has(index)) this.#readers.set(index, new ToolCalls(this.tools.format, this.tools.schemas, { isForced: this.tools.forced !== undefined }));
    const reader = this.#readers.get(index);
    const found = reader.push(text);
    if (finish !== undefined) {
      const { content, calls } = reader.end();
      found.content += content;
      found.calls.push(...calls);
    }
    const first = this.#counts.get(index) ?? 0;
    this.#counts.set(index, first + found.calls.length);
    const calls = found.calls.map((call, i) => ({ index: first + i, id: identifier('call_'), type: 'function', function: call }));
    return { content: found.content, calls };
  }

  /** Why a choice ended. */
  reason({ sequence: index, finish }) {
    return finish === 'stop' && this.#counts.get(index) > 0 ? 'tool_calls' : finish;
  }
}

/** The whole answer at once. */
async function answer(pieces, { parsed, about, tokenizer }) {
  const calls = new Calls(parsed.tools);
  const choices = Array.from({ length: parsed.count }, (_, index) => ({ index, message: { role: 'assistant', content: '', refusal: null }, logprobs: parsed.logprobs.wants ? logprobsOf(tokenizer, []) : null, finish_reason: null }));
  for await (const piece of pieces) {
    const choice = choices[piece.sequence];
    const { content, calls: list } = calls.read(piece);
    choice.message.content += content;
    for (const { id, type, function: call } of list) (choice.message.tool_calls ??= []).push({ id, type, function: call });
    choice.logprobs?.content.push(...logprobsOf(tokenizer, piece.tokens).content);
    if (piece.finish !== undefined) choice.finish_reason = calls.reason(piece);
  }
  for (const { message } of choices) {
    if (message.tool_calls !== undefined) message.content = message.content.trim() === '' ? null : message.content;
  }
  return { ...about, object: 'chat.completion', choices };
}

/**
 * The answer piece by piece.
 * @returns {AsyncGenerator<object, void, void>}
 */
async function* stream(pieces, { parsed, about, tokenizer }) {
  const calls = new Calls(parsed.tools);
  const chunk = (index, delta, logprobs = null, finish = null) => ({ ...about, object: 'chat.completion.chunk', choices: [{ index, delta, logprobs, finish_reason: finish }] });
  const begun = new Set();
  for await (const piece of pieces) {
    const { sequence: index, tokens, finish } = piece;
    if (!begun.has(index)) {
      begun.add(index);
      yield chunk(index, { role: 'assistant', content: '' });
    }
    const { content, calls: list } = calls.read(piece);
    const logprobs = parsed.logprobs.wants && tokens.length > 0 ? logprobsOf(tokenizer, tokens) : null;
    if (content !== '' || logprobs !== null) yield chunk(index, { content }, logprobs);
    for (const call of list) yield chunk(index, { tool_calls: [call] });
    if (finish !== undefined) yield chunk(index, {}, null, calls.reason(piece));
  }
}

module.exports = { answer, identifier, prefix: 'chatcmpl-', read: readChat, stream, streamed: 'chat.completion.chunk', tokenOf };
