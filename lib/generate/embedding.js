'use strict';

// Decoders that take embeddings: the model that embeds tokens, and features that stand for some of them, such as those of an image.

const { types } = require('node:util');
const { typeError } = require('../errors.js');
const { requireArray } = require('../onnx/arrays.js');
const { modelOf, runModel } = require('../onnx/onnx-model.js');
const { quote, show } = require('../show.js');
const { NAME } = require('./cache.js');
const { requireMembers } = require('./members.js');
const { isPlaceholder } = require('./tokens.js');

/**
 * What stands for the tokens of a number: values, or a model that makes them of inputs.
 * @typedef {{token: number, grids: number[], values?: any, model?: import('../onnx/model.js').Model, inputs?: Record<string, any>}} Features
 */

const FEATURES = ['grid', 'inputs', 'model', 'token', 'values'];

/** What models call their result, the usual one first. */
const RESULTS = ['image_features', 'audio_features', 'features', 'last_hidden_state'];

function fail(label, name, found, allowed) {
  throw typeError(NAME, label, `options: ${name}: found ${show(found)}, allowed ${allowed}`);
}

/**
 * The model that embeds tokens.
 * @returns {import('../onnx/model.js').Model | undefined}
 */
function readEmbed(label, embed) {
  if (embed === undefined) return undefined;
  return modelOf(embed) ?? fail(label, 'embed', embed, 'an OnnxModel, or an InferenceSession of webnn-node/onnxruntime');
}

/** @returns {Features[]} */
function readFeatures(label, features) {
  if (features === undefined) return [];
  return (Array.isArray(features) ? features : [features]).map((one) => {
    if (one === null || typeof one !== 'object') fail(label, 'features', one, '{ token, values } or { token, model, inputs }');
    requireMembers(label, one, FEATURES, 'features: ');
    const { token, grid, values, model, inputs } = one;
    if (!isPlaceholder(token)) fail(label, 'features: token', token, 'the number of a token');
    const grids = readGrids(label, grid);
    if (model !== undefined && values !== undefined) fail(label, 'features: values', values, 'values or a model, not both');
    if (model === undefined) {
      if (values === null || typeof values !== 'object') fail(label, 'features: values', values, '{ data, shape } or a typed array');
      return { token, grids, values };
    }
    if (inputs === null || typeof inputs !== 'object') fail(label, 'features: inputs', inputs, 'values by the names of the inputs');
    return { token, grids, model: modelOf(model) ?? fail(label, 'features: model', model, 'an OnnxModel, or an InferenceSession of webnn-node/onnxruntime'), inputs };
  });
}

/** How rows of features lie in images or films, as a list of frames, rows and columns. @returns {number[]} */
function readGrids(label, grid) {
  if (grid === undefined) return [];
  const isSize = (size) => Number.isInteger(size) && size > 0 && size < 2 ** 31;
  const isGrid = (one) => Array.isArray(one) && one.length === 3 && one.every(isSize);
  const all = isGrid(grid) ? [grid] : grid;
  if (!Array.isArray(all) || !all.every(isGrid)) fail(label, 'features: grid', grid, '[frames, rows, columns], or a list of these');
  return all.flat();
}

/** Requires that models can work together. */
function requireSameContext(model, embed) {
  if (embed === undefined) return;
  embed.requireUsable(NAME);
  if (embed.contextState !== model.contextState) throw typeError(NAME, model.label, 'options: embed: found a model of another context, allowed one of the same');
}

/**
 * Runs what makes features, and gives the elements of all.
 * @param {import('../onnx/model.js').Model} model the decoder
 * @param {{features: Features[], signal?: AbortSignal}} options
 * @returns {Promise<[number[], ArrayBufferView[], number[][]]>} the bits of the tokens that they stand for, their elements and their grids
 */
async function featuresOf({ label, inputs: signatures, contextState }, { features, signal }) {
  const signature = signatures.find(({ name }) => name === 'inputs_embeds');
  const arrays = await Promise.all(
    features.map(async ({ values, model, inputs }) => {
      const found = model === undefined ? values : resultOf(label, await runModel(model, inputs, signal && { signal }, contextState.queue));
      const data = types.isTypedArray(found) ? found : found.data;
      if (signature === undefined) throw typeError(NAME, label, "options: features: found some, allowed none for a model without the input 'inputs_embeds'");
      const shape = types.isTypedArray(found) ? [found.length] : (found.shape ?? found.dims ?? [data?.length]);
      requireArray(NAME, label, 'options: features', signature.dataType, shape, data);
      return data;
    }),
  );
  return [features.map(({ token }) => token >>> 0), arrays, features.map(({ grids }) => grids)];
}

function resultOf(label, results) {
  const names = Object.keys(results);
  const name = RESULTS.find((one) => names.includes(one)) ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined) throw typeError(NAME, label, `options: features: found a model with the outputs ${names.map(quote).join(', ')}, allowed one with the name ${RESULTS.map(quote).join(' or ')}`);
  return results[name];
}

module.exports = { featuresOf, readEmbed, readFeatures, requireSameContext };
