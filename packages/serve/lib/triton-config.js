'use strict';

// config.pbtxt of Triton: what it says of versions and batches. It is protobuf's text format, and has more fields than there is a use for here: no schema
// is needed to read it, and the others are named in the log.

/** Characters of a file, and messages inside of each other. */
const LONGEST = 2 ** 20;
const DEEPEST = 32;

const TOKEN = /[\s,;]+|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w.+-]+|[{}<>[\]:]/y;
const CLOSING = { '{': '}', '<': '>' };

/** @returns {string[]} */
function tokensOf(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(text)?.[0];
    if (found === undefined) throw new Error(`line ${text.slice(0, at).split('\n').length}: found ${JSON.stringify(text[at])}`);
    if (!/^[\s,;#]/.test(found)) tokens.push(found);
  }
  return tokens;
}

class Reader {
  #tokens;
  #at = 0;

  constructor(tokens) {
    this.#tokens = tokens;
  }

  /** The fields of a message: each has the list of its values. @returns {Map<string, any[]>} */
  message(end, depth = 0) {
    if (depth > DEEPEST) throw new Error(`found messages nested more than ${DEEPEST} deep`);
    const fields = new Map();
    for (;;) {
      const name = this.#tokens[this.#at++];
      if (name === end) return fields;
      if (name === undefined || !/^\w/.test(name)) throw new Error(`found ${name ?? 'the end'}, expected a field`);
      const hasColon = this.#take(':');
      const values = fields.get(name) ?? [];
      fields.set(name, values);
      if (this.#take('[')) while (!this.#take(']')) values.push(this.#value(name, true, depth));
      else values.push(this.#value(name, hasColon, depth));
    }
  }

  #take(token) {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at++;
    return true;
  }

  #value(name, hasColon, depth) {
    const token = this.#tokens[this.#at++];
    if (Object.hasOwn(CLOSING, token ?? '')) return this.message(CLOSING[token], depth + 1);
    if (!hasColon || token === undefined || /^[[\]{}<>:]/.test(token)) throw new Error(`${name}: found ${token ?? 'the end'}, expected a value`);
    return /^["']/.test(token) ? token.slice(1, -1) : token;
  }
}

/**
 * What the server follows.
 * @typedef {object} TritonConfig
 * @property {string} file the name of the model's file in the folder of a version
 * @property {(versions: string[]) => string[]} choose of the versions that are there, in ascending order
 * @property {false | { maxSize: number, maxDelay: number } | undefined} batching
 * @property {string[]} ignored fields that have no meaning here
 */

/** Known, and without a use: the model's file says it. */
const SAID_BY_MODEL = ['name', 'input', 'output'];
const FOLLOWED = ['max_batch_size', 'dynamic_batching', 'version_policy', 'default_model_filename', 'platform', 'backend'];

/**
 * @param {string} text
 * @returns {TritonConfig}
 */
function readTritonConfig(text) {
  if (text.length > LONGEST) throw new Error(`found ${text.length} characters, allowed ${LONGEST}`);
  const fields = new Reader(tokensOf(text)).message(undefined);
  const last = (name) => fields.get(name)?.at(-1);
  requireOnnx(last('platform'), last('backend'));
  const file = last('default_model_filename') ?? 'model.onnx';
  // A name, which never becomes a path to another folder.
  if (typeof file !== 'string' || !/^[^./\\][^/\\]*$/.test(file)) throw new Error('default_model_filename: expected the name of a file');
  const dynamic = last('dynamic_batching') ?? new Map();
  const ignored = [...fields.keys()].filter((name) => !SAID_BY_MODEL.includes(name) && !FOLLOWED.includes(name));
  ignored.push(...[...dynamic.keys()].filter((name) => name !== 'max_queue_delay_microseconds').map((name) => `dynamic_batching.${name}`));
  return { file, choose: policyOf(last('version_policy')), batching: batchingOf(last('max_batch_size'), dynamic), ignored };
}

function requireOnnx(platform = '', backend = '') {
  if (platform !== '' && !/^onnx/.test(platform)) throw new Error(`platform: found ${JSON.stringify(platform)}, allowed "onnxruntime_onnx"`);
  if (backend !== '' && !/^(onnx|webnn)/.test(backend)) throw new Error(`backend: found ${JSON.stringify(backend)}, allowed "onnxruntime"`);
}

function whole(name, text) {
  if (!/^\d{1,10}$/.test(text)) throw new Error(`${name}: expected a whole number`);
  return Number(text);
}

/** Runs of up to so many rows. What the file does not say is the server's choice. */
function batchingOf(size, dynamic) {
  if (size === undefined) return undefined;
  const most = whole('max_batch_size', size);
  if (most < 2) return false;
  const delay = whole('max_queue_delay_microseconds', dynamic.get('max_queue_delay_microseconds')?.at(-1) ?? '0');
  return { maxSize: Math.min(most, 1024), maxDelay: Math.min(delay / 1000, 60_000) };
}

function policyOf(policy) {
  if (policy === undefined || policy.has('all')) return (versions) => versions;
  if (policy.has('latest')) {
    const count = whole('num_versions', policy.get('latest').at(-1).get('num_versions')?.at(-1) ?? '1');
    return (versions) => (count === 0 ? [] : versions.slice(-count));
  }
  const wanted = policy.get('specific')?.at(-1).get('versions');
  if (wanted === undefined) throw new Error('version_policy: expected latest, all or specific');
  return (versions) => versions.filter((version) => wanted.includes(version));
}

module.exports = { readTritonConfig };
