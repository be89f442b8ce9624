'use strict';

// Folders of the hub: a model with its tokenizer.

const { loadBatched } = require('../load-batched.js');
const { labelOf } = require('../statistics.js');
const { Embedder } = require('./embedder.js');
const { Encoder } = require('./encoder.js');
const { isDecoder, readFolder } = require('./folder.js');
const { LanguageModel } = require('./language-model.js');
const { Reranker } = require('./reranker.js');
const { TextTokenizer } = require('./tokenizer.js');
const { Tokenizing } = require('./tokenizing.js');

/** The most texts of a run, and the most tokens with the padding. */
const TEXTS = { maxSize: 32, maxElements: 16384 };

/**
 * What a network can do with text. Its inputs and outputs tell, and config.json for cross-encoders.
 * @param {import('webnn-node/onnx').OnnxModel} model
 * @param {import('./folder.js').HubFolder} folder
 * @param {import('./language-model.js').Generation} [generation]
 */
function textOf(model, folder, generation) {
  if (folder.tokenizer === undefined) return undefined;
  const has = (list, name) => list.some((one) => one.name === name);
  const isSequenceClassifier = (folder.config.architectures ?? []).some((name) => name.endsWith('ForSequenceClassification'));
  const hasCache = model.inputs.some(({ name }) => name.startsWith('past'));
  const make = (Kind, ...options) => {
    const tokenizer = new TextTokenizer(folder.tokenizer, folder.tokenizerConfig);
    return new Kind(model, folder, tokenizer, new Tokenizing(tokenizer, { json: folder.tokenizerText, config: folder.tokenizerConfig }), ...options);
  };
  if (has(model.outputs, 'logits')) {
    if (hasCache) return make(LanguageModel, generation);
    const isOne = Object.keys(folder.config.id2label ?? { 0: '' }).length === 1 || folder.config.num_labels === 1;
    return isSequenceClassifier && isOne && Encoder.fits(model) ? make(Reranker) : undefined;
  }
  return Embedder.outputOf(model) !== undefined && Encoder.fits(model) ? make(Embedder) : undefined;
}

/**
 * @param {{ name: string, version: string, path: string, context: any, onnx?: object, generation?: import('./language-model.js').Generation, log?: any }} options
 * @returns {Promise<{ onnx: any, text: LanguageModel | Embedder | Reranker | undefined, loaded: number, destroy(): void }>} `onnx` is the
 * OnnxModel that the Open Inference Protocol runs; `text` what OpenAI's interface uses, if the network is one for text; `loaded` the time in
 * seconds
 */
async function loadHub({ name, version, path: folder, context, onnx = {}, generation, log }) {
  const description = await readFolder(folder);
  // A decoder has batches of its own.
  const batching = isDecoder(description.config) ? false : { ...TEXTS, ...onnx.batching };
  const model = await loadBatched(context, description.file, { label: labelOf(name, version), ...onnx, batching: onnx.batching === false ? false : batching }, log);
  try {
    const text = textOf(model, description, generation);
    if (text === undefined) log?.info({ model: name }, 'a model of the hub that is served for tensors only');
    await text?.warmUp();
    const destroy = () => {
      text?.destroy();
      model.destroy();
    };
    return { onnx: model, text, loaded: Math.floor(Date.now() / 1000), destroy };
  } catch (error) {
    model.destroy();
    throw error;
  }
}

module.exports = { loadHub };
