'use strict';

// Models of embeddings that take features as well, as exporters write them: with tokens below zero, or two kinds of features, and with branches that put
// features somewhere only if there are any.

const path = require('node:path');
const protobuf = require('protobufjs');
const { tensor, writeModel } = require('../onnx/write.js');

const ModelProto = protobuf.loadSync(path.join(__dirname, '../onnx/onnx.proto')).lookupType('onnx.ModelProto');

const int64 = (name, ...numbers) => tensor(name, 'int64', [], BigInt64Array.from(numbers, BigInt));
const longs = (name, ...numbers) => tensor(name, 'int64', [numbers.length], BigInt64Array.from(numbers, BigInt));
const node = (op, inputs, output, attributes = {}) => ({ op, inputs, outputs: [output], attributes });

/** The numbers of types in the format. */
const [INT8, BOOL] = [3, 9];

/** Embeddings of the tokens of a value. */
const gather = (ids, output) => node('Gather', ['table', ids], output, { axis: 0 });

/** Puts the rows of features where a mask says. */
const placed = (mask, features, into, output) => [
  node('NonZero', [mask], `${output}_found`),
  node('Transpose', [`${output}_found`], `${output}_places`, { perm: [1, 0] }),
  node('Reshape', [features, 'as_rows'], `${output}_rows`),
  node('ScatterND', [into, `${output}_places`, `${output}_rows`], output),
];

/** A branch, or both of a choice between them. */
const branch = (nodes, output, initializers = []) => ({ graph: { inputs: [], outputs: [{ name: output }], nodes, initializers } });
const choice = (condition, yes, no, output) => node('If', [condition], output, { then_branch: yes, else_branch: no });

/** Where there is the token, with the embeddings of all. */
const usual = [gather('input_ids', 'embedded'), node('Equal', ['input_ids', 'token'], 'mask')];
const plain = branch([node('Identity', ['embedded'], 'plain')], 'plain');
const both = branch(placed('mask', 'image_features', 'embedded', 'placed'), 'placed');
const hasFeatures = [node('Shape', ['image_features'], 'shape'), node('Gather', ['shape', 'zero'], 'count', { axis: 0 }), node('Greater', ['count', 'zero'], 'any')];
const hasTokens = [node('Cast', ['mask'], 'numbers', { to: 7 }), node('ReduceMax', ['numbers'], 'most', { keepdims: 0 }), node('Cast', ['most'], 'any', { to: BOOL })];
const choosing = (condition, yes = both, no = plain) => [...usual, ...condition, choice('any', yes, no, 'inputs_embeds')];

/** A range of tokens below zero stands for a token. */
const below = (ids, token, output) => [
  node('GreaterOrEqual', [ids, `${output}_first`], `${output}_is_above`),
  node('LessOrEqual', [ids, `${output}_last`], `${output}_is_below`),
  node('And', [`${output}_is_above`, `${output}_is_below`], `${output}_is`),
  node('Where', [`${output}_is`, token, ids], output),
];
const compatible = [...below('input_ids', 'token', 'with_images'), ...below('with_images', 'sound', 'known')];
const ranges = [int64('with_images_first', -9999), int64('with_images_last', -1), int64('known_first', -99999), int64('known_last', -10000)];

/** Those that are taken: nodes, further inputs and constants. */
const PLACED = {
  'below zero': {
    nodes: [
      node('Less', ['input_ids', 'zero'], 'is_below'),
      node('Greater', ['input_ids', 'least'], 'is_above'),
      node('And', ['is_below', 'is_above'], 'mask'),
      node('Clip', ['input_ids', 'zero', 'token'], 'known'),
      gather('known', 'embedded'),
      ...placed('mask', 'image_features', 'embedded', 'inputs_embeds'),
    ],
    constants: [int64('least', -1e9)],
  },
  'of a token that is embedded as another one': {
    nodes: [node('Equal', ['input_ids', 'token'], 'mask'), node('Where', ['mask', 'zero', 'input_ids'], 'known'), gather('known', 'embedded'), ...placed('mask', 'image_features', 'embedded', 'inputs_embeds')],
  },
  'of images and sound, with numbers below zero for them': {
    nodes: [
      ...compatible,
      gather('known', 'embedded'),
      node('Equal', ['known', 'token'], 'is_image'),
      node('Equal', ['known', 'sound'], 'is_sound'),
      ...placed('is_image', 'image_features', 'embedded', 'seen'),
      ...placed('is_sound', 'audio_features', 'seen', 'inputs_embeds'),
    ],
    constants: ranges,
    features: ['image_features', 'audio_features'],
  },
  'if there are features': { nodes: choosing(hasFeatures) },
  'unless there are none': { nodes: choosing([...hasFeatures.slice(0, 2), node('Equal', ['count', 'zero'], 'any')], plain, both) },
  'if there are tokens': { nodes: choosing(hasTokens) },
  'if there are tokens, with all in the branches': {
    nodes: [
      node('Equal', ['input_ids', 'token'], 'mask'),
      ...hasTokens,
      choice('any', branch([gather('input_ids', 'embedded'), ...placed('mask', 'image_features', 'embedded', 'placed')], 'placed'), branch([gather('input_ids', 'own')], 'own'), 'inputs_embeds'),
    ],
  },
  'if there are images, and then if there is sound': {
    nodes: [
      ...choosing(hasFeatures).map((one) => (one.op === 'If' ? { ...one, outputs: ['seen'] } : one)),
      node('Equal', ['input_ids', 'sound'], 'is_sound'),
      node('Size', ['audio_features'], 'size'),
      node('Equal', ['size', 'zero'], 'none'),
      node('Not', ['none'], 'some'),
      choice('some', branch(placed('is_sound', 'audio_features', 'seen', 'heard'), 'heard'), branch([node('Identity', ['seen'], 'unheard')], 'unheard'), 'inputs_embeds'),
    ],
    features: ['image_features', 'audio_features'],
  },
};

/** Those that do something else, with the node that does. */
const OTHERS = {
  'if somebody says so': { nodes: choosing([node('Identity', ['says'], 'any')]), inputs: [{ name: 'says', type: 'bool', shape: [] }], at: 'If "inputs_embeds"' },
  'if there are several tokens': { nodes: choosing([node('Shape', ['input_ids'], 'shape'), node('Gather', ['shape', 'one'], 'count', { axis: 0 }), node('Greater', ['count', 'one'], 'any')]), at: 'If "inputs_embeds"' },
  'if there are two rows': { nodes: choosing([...hasFeatures.slice(0, 2), node('Greater', ['count', 'one'], 'any')]), at: 'If "inputs_embeds"' },
  'if there are no features': { nodes: choosing(hasFeatures, plain, both), at: 'If "inputs_embeds"' },
  'if there are other tokens': { nodes: choosing([node('Equal', ['input_ids', 'sound'], 'is_sound'), node('NonZero', ['is_sound'], 'found'), node('Size', ['found'], 'size'), node('Greater', ['size', 'zero'], 'any')]), at: 'If "inputs_embeds"' },
  'if there is sound': { nodes: choosing([node('Size', ['audio_features'], 'size'), node('Greater', ['size', 'zero'], 'any')]), features: ['image_features', 'audio_features'], at: 'If "inputs_embeds"' },
  'and otherwise scales': { nodes: choosing(hasFeatures, both, branch([node('Add', ['embedded', 'embedded'], 'scaled')], 'scaled')), at: 'If "inputs_embeds"' },
  'and otherwise embeds by another table': { nodes: choosing(hasFeatures, both, branch([node('Gather', ['other_table', 'input_ids'], 'own', { axis: 0 })], 'own')), at: 'If "inputs_embeds"' },
  'and otherwise embeds along another axis': { nodes: choosing(hasFeatures, both, branch([node('Gather', ['table', 'input_ids'], 'own', { axis: 1 })], 'own')), at: 'If "inputs_embeds"' },
  'by chance': {
    nodes: [...usual, ...hasFeatures, choice('any', branch([node('RandomNormalLike', ['embedded'], 'noise'), ...placed('mask', 'image_features', 'noise', 'placed')], 'placed'), branch([node('RandomNormalLike', ['embedded'], 'other_noise')], 'other_noise'), 'inputs_embeds')],
    at: 'If "inputs_embeds"',
  },
  'with numbers that wrap': {
    nodes: [gather('input_ids', 'embedded'), node('Cast', ['input_ids'], 'short', { to: INT8 }), node('Equal', ['short', 'short_token'], 'mask'), ...placed('mask', 'image_features', 'embedded', 'inputs_embeds')],
    constants: [tensor('short_token', 'int8', [], Int8Array.of(39))],
    at: 'ScatterND "inputs_embeds"',
  },
  'of one token for both': {
    nodes: [...usual, ...placed('mask', 'image_features', 'embedded', 'seen'), ...placed('mask', 'audio_features', 'seen', 'inputs_embeds')],
    features: ['image_features', 'audio_features'],
    at: 'ScatterND "seen"',
  },
  'and scales them': { nodes: [...usual, ...placed('mask', 'image_features', 'embedded', 'placed'), node('Add', ['placed', 'placed'], 'inputs_embeds')], at: 'Add "inputs_embeds"' },
};

/**
 * @param {Uint8Array} bytes a model that embeds tokens
 * @param {number} token in whose place images are; sound is in that of the token before
 * @param {{nodes: object[], features?: string[], inputs?: object[], constants?: object[]}} kind one of those above
 */
function placing(bytes, token, { nodes, features = ['image_features'], inputs = [], constants = [] }) {
  const { graph, opsetImport } = ModelProto.decode(bytes);
  const [table] = graph.initializer;
  const width = Number(table.dims[1]);
  return writeModel({
    opset: Number(opsetImport[0].version),
    inputs: [
      ...features.map((name) => ({ name, type: 'float', shape: [`${name}_rows`, width] })),
      { name: 'input_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] },
      ...inputs,
    ],
    outputs: [{ name: 'inputs_embeds' }],
    nodes,
    initializers: [
      { ...table, name: 'table' },
      tensor('other_table', 'float', [Number(table.dims[0]), width], new Float32Array(Number(table.dims[0]) * width)),
      int64('token', token),
      int64('sound', token - 1),
      int64('zero', 0),
      int64('one', 1),
      longs('as_rows', -1, width),
      ...constants,
    ],
  });
}

module.exports = { OTHERS, PLACED, placing };
