'use strict';

// What is known of a model's tokenizer: the content of tokenizer.json, the tokens that end a text, and how text becomes tokens.

const fs = require('node:fs');
const path = require('node:path');

/**
 * @typedef {object} Known
 * @property {string} json the content of `tokenizer.json`
 * @property {number[]} ends
 * @property {(text: string) => number[]} encode
 */

const isObject = (value) => value !== null && typeof value === 'object';

/** The content of a file of JSON, if it is there. */
function readJson(file) {
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {};
}

/** The number of a token of `tokenizer.json`. */
function idOf(content, text) {
  const added = content.added_tokens?.find((token) => token.content === text);
  const vocabulary = content.model?.vocab;
  if (added !== undefined) return added.id;
  return Array.isArray(vocabulary) ? vocabulary.findIndex(([piece]) => piece === text) : vocabulary?.[text];
}

/** The files of a tokenizer, of which `tokenizer.json` or its folder is given: the others name the tokens that end a text. */
function filesOf(place) {
  const file = fs.statSync(place).isDirectory() ? path.join(place, 'tokenizer.json') : place;
  const beside = (name) => path.join(path.dirname(file), name);
  return { file, config: beside('tokenizer_config.json'), generation: beside('generation_config.json') };
}

/** The tokens that end a text, as the files beside `tokenizer.json` name them. */
function endsBeside({ config, generation }, content) {
  const named = readJson(config).eos_token;
  const own = named === undefined || named === null ? [] : [idOf(content, named.content ?? named)];
  const generated = [readJson(generation).eos_token_id ?? []].flat();
  return [...new Set([...own, ...generated])].filter((id) => Number.isInteger(id) && id >= 0);
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
  const json = fs.readFileSync(files.file, 'utf8');
  const content = JSON.parse(json);
  return { json, ends: endsBeside(files, content), encode: lazily(content) };
}

/** @returns {Known | undefined} */
function ofObject(tokenizer) {
  if (isObject(tokenizer.model) && tokenizer.model.vocab !== undefined && typeof tokenizer.encode !== 'function') {
    return { json: JSON.stringify(tokenizer), ends: [], encode: lazily(tokenizer) };
  }
  // transformers.js keeps the file's content so, and @huggingface/tokenizers so.
  const content = tokenizer._tokenizerJSON ?? tokenizer.tokenizer;
  if (typeof tokenizer.encode !== 'function' || !isObject(content?.model)) return undefined;
  const named = tokenizer.config?.eos_token;
  const end = tokenizer.eos_token_id ?? (named ? idOf(content, named.content ?? named) : undefined);
  return { json: JSON.stringify(content), ends: Number.isInteger(end) ? [end] : [], encode: (text) => encoded(tokenizer, text) };
}

/**
 * @param {unknown} tokenizer
 * @returns {Known}
 */
function readTokenizer(tokenizer) {
  const found = typeof tokenizer === 'string' ? ofFile(tokenizer) : isObject(tokenizer) ? ofObject(tokenizer) : undefined;
  if (found !== undefined) return found;
  const kind = tokenizer === undefined || tokenizer === null ? String(tokenizer) : `a value of type ${typeof tokenizer}`;
  throw new TypeError(`constraint: tokenizer: found ${kind}, allowed the path of tokenizer.json or of its folder, its parsed content, or a tokenizer of transformers.js or @huggingface/tokenizers`);
}

module.exports = { filesOf, readTokenizer };
