'use strict';

// A decoder as exports of models that see images have it: a model that embeds tokens, a decoder that takes the embeddings, and a vision encoder. The
// whole model, which takes tokens, is what they are held against: images are rows of its table after those of the tokens.

const path = require('node:path');
const protobuf = require('protobufjs');
const { bytesOf, tensor, writeModel } = require('../onnx/write.js');
const { seededNumbers } = require('../seeded-numbers.js');

const ModelProto = protobuf.loadSync(path.join(__dirname, '../onnx/onnx.proto')).lookupType('onnx.ModelProto');

const PATCHES = 4;
const PIXELS = 12;

/** The weights of the vision encoder. */
const weights = (width) => seededNumbers(PIXELS * width, 1.5, 99);

/** From pictures of 3 × 4 × 4 to 4 embeddings for each. */
function visionEncoder(width) {
  const nodes = [
    { op: 'Reshape', inputs: ['pixel_values', 'shape'], outputs: ['patches'] },
    { op: 'MatMul', inputs: ['patches', 'weights'], outputs: ['image_features'] },
  ];
  const initializers = [tensor('shape', 'int64', [3], BigInt64Array.of(-1n, BigInt(PATCHES), BigInt(PIXELS))), tensor('weights', 'float', [PIXELS, width], weights(width))];
  return writeModel({ opset: 17, inputs: [{ name: 'pixel_values', type: 'float', shape: ['images', 3, 4, 4] }], outputs: [{ name: 'image_features' }], nodes, initializers });
}

/** A picture, and its embeddings. */
function picture(seed, width) {
  const pixels = seededNumbers(PATCHES * PIXELS, 4, seed);
  const table = weights(width);
  const features = new Float32Array(PATCHES * width);
  for (let row = 0; row < PATCHES; row++) {
    for (let column = 0; column < width; column++) {
      for (let k = 0; k < PIXELS; k++) features[row * width + column] += pixels[row * PIXELS + k] * table[k * width + column];
    }
  }
  return { pixels: { data: pixels, shape: [1, 3, 4, 4] }, features: { data: features, shape: [PATCHES, width] } };
}

/**
 * The parts of a decoder, and the whole of it with more rows in its table.
 * @param {Uint8Array} bytes a decoder that takes tokens
 * @param {Float32Array[]} rows
 */
function parts(bytes, rows) {
  const decode = () => ModelProto.decode(bytes);
  const { graph, opsetImport } = decode();
  const gather = graph.node.find(({ opType, input }) => opType === 'Gather' && input[1] === 'input_ids');
  const table = graph.initializer.find(({ name }) => name === gather.input[0]);
  const [count, width] = table.dims.map(Number);
  const embed = writeModel({
    opset: Number(opsetImport[0].version),
    inputs: [{ name: 'input_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] }],
    outputs: [{ name: 'inputs_embeds' }],
    nodes: [{ op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['inputs_embeds'], attributes: { axis: 0 } }],
    initializers: [{ ...table, name: 'table' }],
  });
  const decoder = decode();
  const embeds = { name: 'inputs_embeds', type: { tensorType: { elemType: 1, shape: { dim: [{ dimParam: 'batch_size' }, { dimParam: 'sequence_length' }, { dimValue: width }] } } } };
  decoder.graph.input = decoder.graph.input.map((input) => (input.name === 'input_ids' ? embeds : input));
  decoder.graph.initializer = decoder.graph.initializer.filter(({ name }) => name !== table.name);
  decoder.graph.node = decoder.graph.node.filter(({ output }) => output[0] !== gather.output[0]);
  for (const node of decoder.graph.node) node.input = node.input.map((name) => (name === gather.output[0] || name === 'input_ids' ? 'inputs_embeds' : name));
  const whole = decode();
  const longer = whole.graph.initializer.find(({ name }) => name === table.name);
  longer.rawData = Buffer.concat([table.rawData, ...rows.map(bytesOf)]);
  longer.dims = [count + rows.reduce((sum, { length }) => sum + length, 0) / width, width];
  return { embed, decoder: ModelProto.encode(ModelProto.fromObject(ModelProto.toObject(decoder))).finish(), whole: ModelProto.encode(whole).finish(), count, width };
}

module.exports = { PATCHES, parts, picture, visionEncoder };
