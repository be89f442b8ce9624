'use strict';

// The native vocabularies of tokenizers. Making one takes tens of milliseconds, so each is made once.

const path = require('node:path');
const { stateOf } = require('./files.js');
const native = require('./native.js');
const { translated } = require('./regex/patterns.js');
const { filesOf, readTokenizer } = require('./tokenizer.js');

/** Tokenizers of files that are kept, and vocabularies of a tokenizer, for different ends of a text: each takes some 10 MB. */
const MOST_FILES = 4;
const MOST_ENDS = 4;
/** Constraints of a vocabulary that are kept. */
const MOST_COMPILED = 32;

/** By tokenizer, and by the tokens that end a text. @type {WeakMap<object, Map<string, Promise<Vocabulary>>>} */
const ofObjects = new WeakMap();
/** By path. @type {Map<string, {stamp: string, found: Map<string, Promise<Vocabulary>>}>} */
const ofFiles = new Map();

/** Keeps what was used last. */
function remember(map, key, value, most) {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value);
  return value;
}

/** A vocabulary, and what was compiled for it. */
class Vocabulary {
  /** @type {Map<string, Promise<any>>} */
  #compiled = new Map();
  #native;
  encode;

  constructor(nativeVocabulary, encode) {
    this.#native = nativeVocabulary;
    this.encode = encode;
  }

  /** Words of a mask. */
  get words() {
    return this.#native.words;
  }

  /** The native grammar of a text, whose regular expressions have flags. @returns {Promise<any>} */
  compile(kind, text, flags) {
    const key = `${kind} ${flags} ${text}`;
    const found = this.#compiled.get(key) ?? this.#make(kind, text, flags);
    remember(this.#compiled, key, found, MOST_COMPILED);
    found.catch(() => this.#compiled.delete(key));
    return found;
  }

  async #make(kind, text, flags) {
    const patterns = await native.findPatterns(kind, text);
    return this.#native.compile(kind, text, await translated(patterns, flags));
  }
}

async function make(tokenizer, end) {
  const { json, ends, encode } = readTokenizer(tokenizer);
  try {
    return new Vocabulary(await native.loadVocabulary(json, end ?? ends), encode);
  } catch (error) {
    throw new TypeError(`constraint: tokenizer: ${error.message}`, { cause: error });
  }
}

/** The state of the files of a tokenizer. */
function stampOf(place) {
  const states = Object.values(filesOf(place)).map(stateOf);
  return states.map((state) => (state === undefined ? '' : `${state.mtimeMs} ${state.size}`)).join(', ');
}

/** What is kept for a tokenizer. */
function kept(tokenizer) {
  if (typeof tokenizer === 'string') {
    const place = path.resolve(tokenizer);
    const stamp = stampOf(place);
    const old = ofFiles.get(place);
    return remember(ofFiles, place, old?.stamp === stamp ? old : { stamp, found: new Map() }, MOST_FILES).found;
  }
  if (tokenizer === null || typeof tokenizer !== 'object') return new Map();
  if (!ofObjects.has(tokenizer)) ofObjects.set(tokenizer, new Map());
  return ofObjects.get(tokenizer);
}

/**
 * @param {unknown} tokenizer
 * @param {number[] | undefined} end
 * @returns {Promise<Vocabulary>}
 */
function vocabularyOf(tokenizer, end) {
  const found = kept(tokenizer);
  const key = String(end);
  const vocabulary = found.get(key) ?? make(tokenizer, end);
  remember(found, key, vocabulary, MOST_ENDS);
  vocabulary.catch(() => found.delete(key));
  return vocabulary;
}

module.exports = { vocabularyOf };
