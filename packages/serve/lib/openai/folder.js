'use strict';

// Reads a folder as Hugging Face's hub has it: the settings of a language model, and which file is the network.

const fs = require('node:fs/promises');
const path = require('node:path');

/** By preference. Decoders are limited by the memory that they read, so small weights come first there. */
const FILES = {
  generate: ['model_q4.onnx', 'model_q4f16.onnx', 'model.onnx', 'model_quantized.onnx', 'model_int8.onnx', 'model_uint8.onnx', 'model_fp16.onnx'],
  encode: ['model.onnx', 'model_quantized.onnx', 'model_int8.onnx', 'model_uint8.onnx', 'model_fp16.onnx', 'model_q4.onnx', 'model_q4f16.onnx'],
};
/** Names of data types, as transformers.js has them in config.json, by what they add to the name of a file. */
const TYPES = { fp32: '', fp16: '_fp16', q8: '_quantized', int8: '_int8', uint8: '_uint8', q4: '_q4', q4f16: '_q4f16', bnb4: '_bnb4' };
/** A tokenizer without a limit has a number like 1e30. */
const UNLIMITED = 1e9;

/** @returns {Promise<any>} undefined if there is no such file */
async function readJson(...parts) {
  return parse(await readText(...parts), ...parts);
}

function parse(text, ...parts) {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${path.join(...parts)}: ${error.message}`, { cause: error });
  }
}

async function readText(...parts) {
  try {
    return await fs.readFile(path.join(...parts), 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
    throw error;
  }
}

async function isFile(file) {
  try {
    return (await fs.stat(file)).isFile();
  } catch {
    return false;
  }
}

/** Whether the architecture in config.json continues text. */
const isDecoder = (config) => (config.architectures ?? []).some((name) => /ForCausalLM|LMHeadModel|ForConditionalGeneration/.test(name));

/** The name of the network's file that a folder asks for. */
function wantedFile(config, genai) {
  const { dtype } = config['transformers.js_config'] ?? {};
  const type = typeof dtype === 'object' ? dtype?.model : dtype;
  return Object.hasOwn(TYPES, type) ? `model${TYPES[type]}.onnx` : genai?.model?.decoder?.filename;
}

/**
 * The file with the network.
 * @param {string} folder
 * @param {object} config config.json
 * @param {string} [wanted] its name, in the folder or in onnx/
 */
async function modelFileOf(folder, config, wanted) {
  const names = wanted === undefined ? FILES[isDecoder(config) ? 'generate' : 'encode'] : [path.basename(wanted)];
  const candidates = names.flatMap((name) => [path.join(folder, 'onnx', name), path.join(folder, name)]);
  for (const file of candidates) {
    if (await isFile(file)) return file;
  }
  return undefined;
}

/** Templates by name; that without a name is `default`. */
async function chatTemplatesOf(folder, tokenizerConfig) {
  const file = (await readText(folder, 'chat_template.jinja')) ?? (await readJson(folder, 'chat_template.json'))?.chat_template;
  const given = file ?? tokenizerConfig.chat_template;
  if (typeof given === 'string') return { default: given };
  if (!Array.isArray(given)) return {};
  return Object.fromEntries(given.filter(({ name, template }) => typeof name === 'string' && typeof template === 'string').map(({ name, template }) => [name, template]));
}

/** A module's folder, which must be below the model's. */
function moduleFolder(folder, name = '') {
  const found = path.resolve(folder, name);
  const relative = path.relative(folder, found);
  if (relative.startsWith('..') || path.isAbsolute(relative)) throw new Error(`${path.join(folder, 'modules.json')}: the path ${JSON.stringify(name)} leads out of the folder`);
  return found;
}

/**
 * What sentence-transformers does after the network.
 * @returns {Promise<{pooling: object | undefined, normalize: boolean, dense: boolean} | undefined>} undefined without modules.json
 */
async function modulesOf(folder) {
  const modules = await readJson(folder, 'modules.json');
  if (!Array.isArray(modules)) {
    const pooling = await readJson(folder, '1_Pooling', 'config.json');
    return pooling && { pooling, normalize: true, dense: false };
  }
  const kind = ({ type }) => String(type).split('.').at(-1);
  const pooling = modules.find((one) => kind(one) === 'Pooling');
  return {
    pooling: pooling && (await readJson(moduleFolder(folder, pooling.path), 'config.json')),
    normalize: modules.some((one) => kind(one) === 'Normalize'),
    dense: modules.some((one) => kind(one) === 'Dense'),
  };
}

const least = (...numbers) => Math.min(...numbers.filter((x) => Number.isInteger(x) && x > 0 && x < UNLIMITED));

/**
 * How many tokens a network takes. Positions of a decoder's config.json count, since tokenizers often say less or more; those of RoBERTa
 * begin after the padding's.
 */
function lengthOf(config, tokenizerConfig, sentenceConfig) {
  const { text_config: text = {} } = config;
  const positions = [config, text].flatMap((c) => [c.max_position_embeddings, c.n_positions, c.n_ctx, c.max_sequence_length]);
  const places = least(...positions);
  if (isDecoder(config) && places < Infinity) return places;
  return least(places, tokenizerConfig.model_max_length, sentenceConfig?.max_seq_length);
}

/**
 * @typedef {object} HubFolder
 * @property {string} folder
 * @property {string} file the network
 * @property {object} config
 * @property {object} generation generation_config.json, or an empty object
 * @property {object | undefined} tokenizer tokenizer.json, if there is one
 * @property {string | undefined} tokenizerText the same as text
 * @property {object} tokenizerConfig
 * @property {Record<string, string>} chatTemplates
 * @property {{pooling: object | undefined, normalize: boolean, dense: boolean} | undefined} modules
 * @property {Record<string, string>} prompts what sentence-transformers puts before texts, by name
 * @property {string | undefined} defaultPrompt
 * @property {number} maxLength in tokens; `Infinity` if nothing says it
 */

/** What genai_config.json of onnxruntime-genai says, in the words of config.json and generation_config.json. */
function ofGenai({ model = {}, search = {} }) {
  return { config: { architectures: ['ForCausalLM'], max_position_embeddings: model.context_length, eos_token_id: model.eos_token_id, pad_token_id: model.pad_token_id }, generation: search };
}

/**
 * @param {string} folder
 * @returns {Promise<HubFolder>}
 */
async function readFolder(folder) {
  const names = ['config.json', 'genai_config.json', 'tokenizer_config.json', 'generation_config.json', 'sentence_bert_config.json', 'config_sentence_transformers.json'];
  const [given, genai, tokenizerConfig = {}, generation, sentenceConfig, sentences = {}] = await Promise.all(names.map((name) => readJson(folder, name)));
  const built = genai && ofGenai(genai);
  const config = given ?? built?.config;
  if (config === undefined) throw new Error(`${folder}: found no config.json`);
  const tokenizerText = await readText(folder, 'tokenizer.json');
  const wanted = wantedFile(config, genai);
  const file = await modelFileOf(folder, config, wanted);
  if (file === undefined) throw new Error(`${folder}: found no ${wanted ?? 'model.onnx or model_q4.onnx'}, neither in onnx/ nor in the folder itself`);
  return {
    folder,
    file,
    config,
    generation: generation ?? built?.generation ?? {},
    tokenizer: parse(tokenizerText, folder, 'tokenizer.json'),
    tokenizerText,
    tokenizerConfig,
    chatTemplates: await chatTemplatesOf(folder, tokenizerConfig),
    modules: await modulesOf(folder),
    prompts: sentences.prompts ?? {},
    defaultPrompt: sentences.default_prompt_name ?? undefined,
    maxLength: lengthOf(config, tokenizerConfig, sentenceConfig),
  };
}

module.exports = { isDecoder, readFolder };
