'use strict';

// What is known of a model's tokenizer: what the native part needs of tokenizer.json, the tokens that end a text, and how text becomes tokens.

const path = require('node:path');
const { readJson, stateOf } = require('./files.js');

/**
 * @typedef {object} Known
 * @property {string} json what the native part needs of `tokenizer.json`
 * @property {number[]} ends
 * @property {(text: string) => number[]} encode
 */

const isObject = (value) => value !== null && typeof value === 'object';
const isToken = (id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31;

/** Tokens, and added tokens. Models of today have up to 262,144. */
const MOST_TOKENS = 1 << 20;
/** Characters of what says how tokens become text. */
const LONGEST_PART = 1 << 20;

class TokenizerError extends TypeError {
  constructor(text, cause) {
    super(`constraint: tokenizer: ${text}`, { cause });
    this.name = 'TypeError';
  }
}

const addedIn = (content) => (Array.isArray(content.added_tokens) ? content.added_tokens : []);

/** The number of a token of `tokenizer.json`. */
function idOf(content, text) {
  const vocabulary = content.model?.vocab;
  const added = addedIn(content).find((token) => token?.content === text);
  if (added !== undefined) return added.id;
  if (Array.isArray(vocabulary)) return vocabulary.findIndex((piece) => piece?.[0] === text);
  return isObject(vocabulary) && Object.hasOwn(vocabulary, text) ? vocabulary[text] : undefined;
}

/** The files of a tokenizer, of which `tokenizer.json` or its folder is given: the others name the tokens that end a text. */
function filesOf(place) {
  let state;
  try {
    state = stateOf(place);
  } catch (error) {
    throw new TokenizerError(error.message, error);
  }
  if (state === undefined) throw new TokenizerError(`there is no file ${place}`);
  const file = state.isDirectory() ? path.join(place, 'tokenizer.json') : place;
  const beside = (name) => path.join(path.dirname(file), name);
  return { file, config: beside('tokenizer_config.json'), generation: beside('generation_config.json') };
}

/** The content of a file, which may be missing. */
function contentOf(file) {
  let content;
  try {
    content = readJson(file);
  } catch (error) {
    throw new TokenizerError(`${file}: ${error.message}`, error);
  }
  if (content !== undefined && (!isObject(content) || Array.isArray(content))) throw new TokenizerError(`${file}: found ${kindOf(content)}, allowed an object`);
  return content;
}

/** The tokens that end a text, as the files beside `tokenizer.json` name them. */
function endsBeside({ config, generation }, content) {
  const named = contentOf(config)?.eos_token;
  const own = named === undefined || named === null ? undefined : idOf(content, named.content ?? named);
  const generated = [contentOf(generation)?.eos_token_id ?? []].flat();
  const wrong = generated.find((id) => !isToken(id));
  if (wrong !== undefined) throw new TokenizerError(`${generation}: eos_token_id: found ${JSON.stringify(wrong)}, allowed tokens`);
  return [...new Set([...(isToken(own) ? [own] : []), ...generated])];
}

/** What the native part needs, of the types that it expects: merges alone are half of a file. */
function forNative(content) {
  const { model, decoder, pre_tokenizer: before } = content;
  const [vocab, added] = [model?.vocab, content.added_tokens];
  const count = Array.isArray(vocab) ? vocab.length : Object.keys(isObject(vocab) ? vocab : {}).length;
  const most = Math.max(count, addedIn(content).length);
  if (most > MOST_TOKENS) throw new TokenizerError(`tokenizer.json: found ${most} tokens, allowed ${MOST_TOKENS}`);
  const numbers = () => Object.fromEntries(Object.entries(vocab).map(([text, id]) => [text, typeof id === 'number' ? id : null]));
  const pieces = () => vocab.map((piece) => [typeof piece?.[0] === 'string' ? piece[0] : null]);
  const parts = JSON.stringify({ decoder, pre_tokenizer: before });
  if (parts.length > LONGEST_PART) throw new TokenizerError('tokenizer.json: the decoder and the pre-tokenizer are too large');
  return JSON.stringify({
    ...JSON.parse(parts),
    added_tokens: Array.isArray(added) ? added.map((token) => known(token)) : added === undefined || added === null ? [] : [null],
    model: { vocab: Array.isArray(vocab) ? pieces() : isObject(vocab) ? numbers() : null },
  });
}

/** An added token, without what is of another type. */
function known(token) {
  const { id, content, special } = token ?? {};
  return { id: typeof id === 'number' ? id : null, content: typeof content === 'string' ? content : null, special: special === true };
}

function native(content) {
  try {
    return forNative(content);
  } catch (error) {
    throw error instanceof TokenizerError ? error : new TokenizerError(`tokenizer.json: ${error.message}`, error);
  }
}

/** A tokenizer of its content, when text is made tokens for the first time. */
function lazily(content) {
  let tokenizer;
  return (text) => {
    if (tokenizer === undefined) {
      const { Tokenizer } = require('@huggingface/tokenizers');
      // It wants to be told what there is not.
      tokenizer = new Tokenizer({ normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, added_tokens: [], ...content }, {});
    }
    return encoded(tokenizer, text);
  };
}

function encoded(tokenizer, text) {
  const found = tokenizer.encode(text, { add_special_tokens: false });
  return Array.isArray(found) ? found : found.ids;
}

/** @returns {Known} */
function ofFile(place) {
  const files = filesOf(place);
  const content = contentOf(files.file);
  if (content === undefined) throw new TokenizerError(`there is no file ${files.file}`);
  return { json: native(content), ends: endsBeside(files, content), encode: lazily(content) };
}

/** @returns {Known | undefined} */
function ofObject(tokenizer) {
  if (isObject(tokenizer.model) && tokenizer.model.vocab !== undefined && typeof tokenizer.encode !== 'function') {
    return { json: native(tokenizer), ends: [], encode: lazily(tokenizer) };
  }
  // transformers.js keeps the file's content so, and @huggingface/tokenizers so.
  const content = tokenizer._tokenizerJSON ?? tokenizer.tokenizer;
  if (typeof tokenizer.encode !== 'function' || !isObject(content?.model)) return undefined;
  const named = tokenizer.config?.eos_token;
  const end = tokenizer.eos_token_id ?? (named ? idOf(content, named.content ?? named) : undefined);
  return { json: native(content), ends: isToken(end) ? [end] : [], encode: (text) => encoded(tokenizer, text) };
}

const kindOf = (value) => (value === undefined || value === null ? String(value) : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`);

/**
 * @param {unknown} tokenizer
 * @returns {Known}
 */
function readTokenizer(tokenizer) {
  const found = typeof tokenizer === 'string' ? ofFile(tokenizer) : isObject(tokenizer) ? ofObject(tokenizer) : undefined;
  if (found !== undefined) return found;
  throw new TokenizerError(`found ${kindOf(tokenizer)}, allowed the path of tokenizer.json or of its folder, its parsed content, or a tokenizer of transformers.js or @huggingface/tokenizers`);
}

module.exports = { filesOf, isToken, kindOf, readTokenizer };
