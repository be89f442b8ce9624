'use strict';

// Finds calls of tools in what a model says. Each family of models writes them in its own way; the chat template shows which.

const { StopStrings } = require('webnn-node/generate');

/**
 * @typedef {{name: string, arguments: string}} Call `arguments` is JSON
 * @typedef {Map<string, object>} Tools the schemas of the arguments, by name
 */

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A call from its object; nothing if it is none, or of a tool that there is not. */
function callOf(value, tools) {
  if (value === null || typeof value !== 'object' || !tools.has(value.name)) return undefined;
  const given = value.arguments ?? value.parameters ?? {};
  const isText = typeof given === 'string';
  if (isText && parsed(given) === undefined) return undefined;
  return { name: value.name, arguments: isText ? given : JSON.stringify(given) };
}

/** All of them are calls, or nothing is. */
function callsOf(values, tools) {
  const calls = values.map((value) => callOf(value, tools));
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
}

/** <function=name><parameter=key>value</parameter></function>, as Qwen's later models write. */
function markedUp(body, tools) {
  const [, name, inside] = /^\s*<function=([^>\s]+)>([^]*?)(?:<\/function>)?\s*$/.exec(body) ?? [];
  if (!tools.has(name)) return undefined;
  const { properties = {} } = tools.get(name);
  const given = {};
  for (const [, key, text] of inside.matchAll(/<parameter=([^>\s]+)>\n?([^]*?)\n?<\/parameter>/g)) {
    const isText = Object.hasOwn(properties, key) && properties[key]?.type === 'string';
    Object.defineProperty(given, key, { value: isText ? text : (parsed(text) ?? text), enumerable: true, configurable: true, writable: true });
  }
  return [{ name, arguments: JSON.stringify(given) }];
}

/** name[ARGS]{…}, one after the other, or name{…}, as Mistral's later models write. */
function named(body, tools) {
  const values = body.split('[TOOL_CALLS]').map((one) => {
    const [, name, given] = /^\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\])?\s*(\{[^]*\})\s*$/.exec(one) ?? [];
    return { name, arguments: given };
  });
  return callsOf(values, tools);
}

const json = (body, tools) => {
  const value = parsed(body);
  return value === undefined ? undefined : callsOf([value].flat(), tools);
};

/** Objects with semicolons between them. */
const several = (body, tools) => json(body, tools) ?? json(`[${body.trim().replace(/\}\s*;\s*\{/g, '},{')}]`, tools);

/**
 * How calls are written: what begins and ends them, and what reads the text between. Without an end they end with the text. If `isWhole` is
 * true, a text is a call if it begins with a brace. For calls that must be made: the end of the prompt, what the arguments are called, and whether
 * calls are in an array.
 */
const FORMATS = {
  tags: { begin: '<tool_call>', end: '</tool_call>', forced: { prompt: '<tool_call>\n', key: 'arguments' }, read: (body, tools) => json(body, tools) ?? markedUp(body, tools) },
  mistral: { begin: '[TOOL_CALLS]', forced: { prompt: '[TOOL_CALLS]', key: 'arguments', isList: true }, read: (body, tools) => json(body, tools) ?? named(body, tools) },
  object: { begin: '<|python_tag|>', isWhole: true, forced: { prompt: '', key: 'parameters' }, read: several },
};
/** Tokens that are special in some tokenizers, but are needed to find calls. */
const MARKS = ['<tool_call>', '</tool_call>', '[TOOL_CALLS]', '[ARGS]', '[CALL_ID]', '<|python_tag|>'];

/** The format that a chat template uses; nothing if it does not know tools. */
function formatOf(template) {
  if (!/\btools\b/.test(template)) return undefined;
  if (template.includes('<tool_call>')) return 'tags';
  return template.includes('[TOOL_CALLS]') ? 'mistral' : 'object';
}

class ToolCalls {
  #format;
  #tools;
  #marks;
  /** The text of a call, while one is being read. */
  #body;
  #began = false;

  /**
   * @param {keyof typeof FORMATS} format
   * @param {Tools} tools
   * @param {{isForced?: boolean}} [options] whether the text is a call, whose beginning is at the end of the prompt
   */
  constructor(format, tools, { isForced = false } = {}) {
    this.#format = FORMATS[format];
    this.#tools = tools;
    if (isForced) this.#body = '';
    this.#marks = new StopStrings([this.#format.begin]);
  }

  /**
   * @param {string} piece
   * @returns {{content: string, calls: Call[]}}
   */
  push(piece) {
    const found = { content: '', calls: [] };
    let rest = piece;
    if (this.#format.isWhole && !this.#began) {
      this.#began = /\S/.test(piece);
      if (/^\s*\{/.test(piece)) [this.#body, rest] = [piece, ''];
    }
    while (rest !== '') rest = this.#body === undefined ? this.#read(rest, found) : this.#readBody(rest, found);
    return found;
  }

  /** Reads what is no call. Gives the text that is left to read. */
  #read(text, found) {
    const before = this.#marks.push(text);
    found.content += before;
    if (this.#marks.found === undefined) return '';
    this.#body = '';
    const rest = this.#marks.rest;
    this.#marks = new StopStrings([this.#format.begin]);
    return rest;
  }

  #readBody(text, found) {
    this.#body += text;
    const { end } = this.#format;
    const at = end === undefined ? -1 : this.#body.indexOf(end);
    if (at < 0) return '';
    const [body, rest] = [this.#body.slice(0, at), this.#body.slice(at + end.length)];
    this.#take(body, end, found);
    return rest;
  }

  #take(body, end, found) {
    this.#body = undefined;
    const calls = this.#format.read(body, this.#tools);
    if (calls === undefined) found.content += `${this.#format.isWhole ? '' : this.#format.begin}${body}${end}`;
    else found.calls.push(...calls);
  }

  /** What waited, when no more text comes. */
  end() {
    const found = { content: '', calls: [] };
    if (this.#body !== undefined) this.#take(this.#body, '', found);
    found.content += this.#marks.end();
    return found;
  }
}

/** See {@link FORMATS}. */
const forcedBy = (format) => FORMATS[format].forced;

module.exports = { MARKS, ToolCalls, forcedBy, formatOf };
