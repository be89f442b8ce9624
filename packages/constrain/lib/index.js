'use strict';

// require('@webnn-node/constrain'): makes constraints for generate() of webnn-node/generate.

const { isToken, kindOf } = require('./tokenizer.js');
const { vocabularyOf } = require('./vocabularies.js');

const KINDS = ['schema', 'regex', 'grammar'];
const MEMBERS = ['end', 'grammar', 'regex', 'schema', 'tokenizer'];

/** One sequence. */
class Matcher {
  #native;
  #encode;
  #mask;

  constructor(native, words, encode) {
    this.#native = native;
    this.#mask = new Uint32Array(words);
    this.#encode = encode;
  }

  mask() {
    return attempt(() => {
      this.#native.fill(this.#mask);
      return this.#mask;
    });
  }

  /** The mask is computed on another thread. What else is asked of the matcher meanwhile waits for it. */
  async maskAsync() {
    try {
      await this.#native.prepare();
    } catch (error) {
      throw constraintError(error);
    }
    return this.mask();
  }

  push(id) {
    attempt(() => this.#native.push(id));
  }

  forced() {
    const found = this.#native.forcedText();
    if (found === null) return [];
    const [before, text] = found;
    const ids = this.#force(before + text);
    // Where a token of the model's own would go across the place, the text that is forced is taken alone.
    return ids.length > 0 || before === '' ? ids : this.#force(text);
  }

  #force(text) {
    return attempt(() => this.#native.force(this.#encode(text)));
  }

  get isDone() {
    return this.#native.isDone;
  }
}

function attempt(work) {
  try {
    return work();
  } catch (error) {
    throw constraintError(error);
  }
}

function constraintError(error) {
  return Object.assign(new Error(`constraint: ${error.message}`, { cause: error }), { code: 'ERR_CONSTRAINT' });
}

class Constraint {
  #grammar;
  #vocabulary;

  constructor(grammar, vocabulary) {
    this.#grammar = grammar;
    this.#vocabulary = vocabulary;
  }

  begin() {
    return new Matcher(this.#grammar.begin(), this.#vocabulary.words, this.#vocabulary.encode);
  }
}

/** The text of a constraint that the native part compiles. */
const TEXTS = {
  schema(schema) {
    const isSchema = typeof schema === 'boolean' || (schema !== null && typeof schema === 'object' && !Array.isArray(schema));
    if (!isSchema) throw refused('schema', schema, 'an object or a boolean');
    const text = written(schema);
    if (text === undefined) throw refused('schema', undefined, 'an object or a boolean');
    return text;
  },
  regex(regex) {
    if (typeof regex === 'string') return regex;
    if (!isRegExp(regex)) throw refused('regex', regex, 'a string or a RegExp');
    return regex.source;
  },
  grammar(grammar) {
    if (typeof grammar !== 'string') throw refused('grammar', grammar, 'a string');
    return grammar;
  },
};

function written(schema) {
  try {
    return JSON.stringify(schema);
  } catch (error) {
    throw new TypeError(`constraint: schema: ${String(error?.message ?? error).split('\n')[0]}`, { cause: error });
  }
}

const isRegExp = (value) => Object.prototype.toString.call(value) === '[object RegExp]';

/** Those of a RegExp; otherwise the flag that JSON schema says expressions have. */
const flagsOf = (regex) => (isRegExp(regex) ? regex.flags : 'u');

function refused(name, found, allowed) {
  const shown = typeof found === 'number' || typeof found === 'string' ? JSON.stringify(found).slice(0, 40) : kindOf(found);
  return new TypeError(`constraint: ${name}: found ${shown}, allowed ${allowed}`);
}

function readEnd(end) {
  if (end === undefined) return undefined;
  const list = [end].flat();
  const wrong = list.findIndex((id) => !isToken(id));
  if (wrong >= 0) throw refused('end', list[wrong], 'a token, or an array of tokens');
  return list;
}

/** Which kind of constraint it is. */
function readKind(constraint) {
  if (constraint === null || typeof constraint !== 'object' || Array.isArray(constraint)) throw new TypeError(`constraint: found ${kindOf(constraint)}, allowed an object`);
  const unknown = Object.keys(constraint).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) throw new TypeError(`constraint: found ${JSON.stringify(unknown)}, allowed ${MEMBERS.join(', ')}`);
  const kinds = KINDS.filter((kind) => constraint[kind] !== undefined);
  if (kinds.length !== 1) throw new TypeError(`constraint: found ${kinds.join(' and ') || 'none of them'}, allowed one of ${KINDS.join(', ')}`);
  return kinds[0];
}

/**
 * Compiles a schema, a regular expression or a grammar.
 * @param {import('../index.d.ts').TextConstraint} constraint
 * @returns {Promise<import('../index.d.ts').TokenConstraint>}
 */
async function compile(constraint) {
  const kind = readKind(constraint);
  const text = TEXTS[kind](constraint[kind]);
  const vocabulary = await vocabularyOf(constraint.tokenizer, readEnd(constraint.end));
  let grammar;
  try {
    grammar = await vocabulary.compile(kind, text, flagsOf(constraint[kind]));
  } catch (error) {
    throw new TypeError(`constraint: ${kind}: ${error.message}`, { cause: error });
  }
  return new Constraint(grammar, vocabulary);
}

module.exports = { compile };
