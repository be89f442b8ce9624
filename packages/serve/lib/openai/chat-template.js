'use strict';

// From the messages of a chat to the text of a prompt, by the model's own template.

const { Template } = require('@huggingface/jinja');
const { invalid, unsupported } = require('./errors.js');

const ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function']);

/** The text of a message: a string, or parts. */
function contentOf(content, param) {
  if (content === undefined || content === null) return null;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalid(param, `${param}: allowed a string or an array of parts.`, 'invalid_type');
  return content
    .map((part, i) => {
      if (part === null || typeof part !== 'object') throw invalid(`${param}[${i}]`, `${param}[${i}]: allowed an object.`, 'invalid_type');
      const { type, text, refusal } = part;
      if (type === 'text' && typeof text === 'string') return text;
      if (type === 'refusal' && typeof refusal === 'string') return refusal;
      throw unsupported(`${param}[${i}].type`, `${param}[${i}]: found a part of type ${JSON.stringify(type)}, allowed 'text': the model reads text only.`);
    })
    .join('');
}

/** The arguments of a call as an object, which is what templates expect; as they are if they are none. */
function argumentsOf(text) {
  if (typeof text !== 'string') return text ?? {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function callOf(call, param) {
  const { id, type = 'function', function: called } = call ?? {};
  if (type !== 'function' || typeof called?.name !== 'string') throw invalid(param, `${param}: allowed { id, type: 'function', function: { name, arguments } }.`);
  return { id, type, function: { name: called.name, arguments: argumentsOf(called.arguments) } };
}

/** What a message may have beside its role and content. */
const OTHERS = ['name', 'tool_call_id', 'reasoning_content'];

/**
 * A message as templates expect it.
 * @param {any} message
 * @param {string} param where it is in the request
 */
function messageOf(message, param) {
  if (message === null || typeof message !== 'object' || Array.isArray(message)) throw invalid(param, `${param}: allowed an object with a role and content.`, 'invalid_type');
  const { role } = message;
  if (!ROLES.has(role)) throw invalid(`${param}.role`, `${param}.role: found ${JSON.stringify(role)}, allowed ${[...ROLES].join(', ')}.`);
  const text = contentOf(message.content, `${param}.content`);
  const calls = callsOf(message, `${param}.tool_calls`);
  if (text === null && calls === undefined) throw invalid(`${param}.content`, `${param}.content: found none, allowed a string.`);
  return {
    ...Object.fromEntries(OTHERS.filter((name) => typeof message[name] === 'string').map((name) => [name, message[name]])),
    // Templates know no developer: the word is OpenAI's.
    role: role === 'developer' ? 'system' : role,
    content: text ?? '',
    ...(calls && { tool_calls: calls }),
  };
}

/** The calls of tools in a message; nothing if there are none. */
function callsOf({ role, tool_calls: calls = null }, param) {
  if (calls !== null && !Array.isArray(calls)) throw invalid(param, `${param}: allowed an array.`, 'invalid_type');
  if (role !== 'assistant' || calls === null || calls.length === 0) return undefined;
  return calls.map((call, i) => callOf(call, `${param}[${i}]`));
}

class ChatTemplate {
  #sources;
  #templates = new Map();
  #named;

  /**
   * @param {Record<string, string>} sources by name
   * @param {Record<string, string>} named texts of special tokens
   */
  constructor(sources, named) {
    this.#sources = sources;
    this.#named = named;
    // A template that cannot be parsed is found when the model is loaded.
    for (const name of Object.keys(sources)) this.#template(name);
  }

  /** Whether the model has one. */
  get exists() {
    return Object.keys(this.#sources).length > 0;
  }

  /** The source of the template for a request. */
  sourceFor(hasTools) {
    return this.#sources[this.#nameFor(hasTools)];
  }

  #nameFor(hasTools) {
    const names = hasTools ? ['tool_use', 'default'] : ['default'];
    return names.find((name) => Object.hasOwn(this.#sources, name)) ?? Object.keys(this.#sources)[0];
  }

  #template(name) {
    if (!this.#templates.has(name)) this.#templates.set(name, new Template(this.#sources[name]));
    return this.#templates.get(name);
  }

  /**
   * @param {object[]} messages of a request
   * @param {{tools?: object[], more?: Record<string, unknown>}} [options] `more` are variables that some templates read
   * @returns {string}
   */
  render(messages, { tools, more = {} } = {}) {
    const list = messages.map((message, i) => messageOf(message, `messages[${i}]`));
    const hasTools = tools !== undefined && tools.length > 0;
    try {
      return this.#template(this.#nameFor(hasTools)).render({
        ...more,
        ...this.#named,
        messages: list,
        tools: hasTools ? tools : null,
        add_generation_prompt: true,
      });
    } catch (error) {
      // What a template raises is about the messages: the order of roles, or something that the model does not know.
      throw invalid('messages', `The model's chat template refuses these messages: ${error.message}`);
    }
  }
}

module.exports = { ChatTemplate };
