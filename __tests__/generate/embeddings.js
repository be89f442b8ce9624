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

const nodeOf = (op, input, output, attributes = []) => ({ opType: op, input, output: [output], attribute: attributes });
const axisOf = (axis) => [{ name: 'axis', i: axis, type: 2 }];

/** Adds to the embeddings of a graph what each layer has of the tokens, as an input or a value of this name has it: [batch, sequence, 2, width]. */
function addPerLayer(graph, embeds, name) {
  const scalar = (number) => {
    graph.initializer.push(tensor(`layer${number}`, 'int64', [], BigInt64Array.of(BigInt(number))));
    return `layer${number}`;
  };
  const nodes = [
    nodeOf('Gather', [name, scalar(0)], 'of_layer_0', axisOf(2)),
    nodeOf('Gather', [name, scalar(1)], 'of_layer_1', axisOf(2)),
    nodeOf('Mul', ['of_layer_0', 'of_layer_1'], 'of_layers'),
    nodeOf('Add', [embeds, 'of_layers'], 'with_layers'),
  ];
  for (const node of graph.node) node.input = node.input.map((other) => (other === embeds ? 'with_layers' : other));
  const maker = graph.node.findIndex(({ output }) => output[0] === embeds);
  graph.node.splice(maker + 1, 0, ...nodes);
}

/**
 * The parts of a decoder to which something of each token is added in every layer, as exports of Gemma 3n have it: the model that embeds tokens
 * has two outputs. Features have that of the token in whose place they are.
 * @param {Uint8Array} bytes a decoder that takes tokens
 * @param {Float32Array[]} rows
 * @param {number} token in whose place features are
 */
function partsWithLayers(bytes, rows, token) {
  const made = parts(bytes, rows);
  const { count, width } = made;
  const table = seededNumbers(count * 2 * width, 1, 77);
  const gather = nodeOf('Gather', ['layers', 'input_ids'], 'per_layer_inputs', axisOf(0));
  const info = { name: 'per_layer_inputs', type: { tensorType: { elemType: 1, shape: { dim: [{ dimParam: 'batch_size' }, { dimParam: 'sequence_length' }, { dimValue: 2 }, { dimValue: width }] } } } };
  const changed = (model, change) => {
    const decoded = ModelProto.toObject(ModelProto.decode(model));
    change(decoded.graph);
    return ModelProto.encode(ModelProto.fromObject(decoded)).finish();
  };
  const embed = changed(made.embed, (graph) => {
    graph.node.unshift(gather);
    graph.initializer.push(tensor('layers', 'float', [count, 2, width], table));
    graph.output.unshift(info);
  });
  const decoder = changed(made.decoder, (graph) => {
    graph.input.push(info);
    addPerLayer(graph, 'inputs_embeds', 'per_layer_inputs');
  });
  const whole = changed(made.whole, (graph) => {
    const all = rows.reduce((sum, { length }) => sum + length, 0) / width;
    const own = table.subarray(token * 2 * width, (token + 1) * 2 * width);
    const longer = Float32Array.from([...table, ...Array.from({ length: all }, () => [...own]).flat()]);
    graph.initializer.push(tensor('layers', 'float', [count + all, 2, width], longer));
    const embeds = graph.node.find(({ opType, input }) => opType === 'Gather' && input[1] === 'input_ids').output[0];
    addPerLayer(graph, embeds, 'per_layer_inputs');
    graph.node.unshift(gather);
  });
  return { ...made, embed, decoder, whole };
}

/**
 * A decoder whose positions have three axes, as exports of Qwen2-VL have it: each axis has a table of its own.
 * @param {Uint8Array} bytes a decoder that takes embeddings, and adds rows of a table of positions
 */
function withAxes(bytes) {
  const model = ModelProto.toObject(ModelProto.decode(bytes));
  const { graph } = model;
  const at = graph.node.findIndex(({ opType, input }) => opType === 'Gather' && input[1] === 'position_ids');
  const { input: [table], output: [sum] } = graph.node[at];
  const { dims, rawData } = graph.initializer.find(({ name }) => name === table);
  const first = new Float32Array(new Uint8Array(rawData).buffer);
  const nodes = [0, 1, 2].flatMap((axis) => {
    // The same numbers, but not in the same places.
    const turned = axis === 0 ? first : first.map((_, i) => first[(i * 7 + axis * 131) % first.length]);
    graph.initializer.push(tensor(`table${axis}`, 'float', dims.map(Number), turned), tensor(`axis${axis}`, 'int64', [], BigInt64Array.of(BigInt(axis))));
    return [nodeOf('Gather', ['position_ids', `axis${axis}`], `positions${axis}`, axisOf(0)), nodeOf('Gather', [`table${axis}`, `positions${axis}`], `of_axis${axis}`, axisOf(0))];
  });
  nodes.push(nodeOf('Add', ['of_axis0', 'of_axis1'], 'of_axes'), nodeOf('Add', ['of_axes', 'of_axis2'], sum));
  graph.node.splice(at, 1, ...nodes);
  const { dim } = graph.input.find(({ name }) => name === 'position_ids').type.tensorType.shape;
  dim.unshift({ dimValue: 3 });
  return ModelProto.encode(ModelProto.fromObject(model)).finish();
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

/**
 * Ways in which exports put features in the place of a token: the nodes after the comparison of the tokens with it. `rows` finds rows, `elements`
 * all of their elements, and `beginning` takes as many features as there is room for. What is not whole rows in their order, `first`
 * elements alone and `sum` of both, is none of these.
 */
const PLACINGS = {
  rows: (width) => ({
    nodes: [
      { op: 'NonZero', inputs: ['is_placeholder'], outputs: ['found'] },
      { op: 'Reshape', inputs: ['image_features', 'as_rows'], outputs: ['rows'] },
    ],
    initializers: [tensor('as_rows', 'int64', [2], BigInt64Array.of(-1n, BigInt(width)))],
  }),
  elements: () => ({
    nodes: [
      { op: 'Unsqueeze', inputs: ['is_placeholder', 'last'], outputs: ['deeper'] },
      { op: 'Shape', inputs: ['embedded'], outputs: ['size'] },
      { op: 'Expand', inputs: ['deeper', 'size'], outputs: ['wide'] },
      { op: 'NonZero', inputs: ['wide'], outputs: ['found'] },
      { op: 'Reshape', inputs: ['image_features', 'last'], outputs: ['rows'] },
    ],
    initializers: [tensor('last', 'int64', [1], BigInt64Array.of(-1n))],
  }),
  beginning: () => ({
    nodes: [
      { op: 'Unsqueeze', inputs: ['is_placeholder', 'last'], outputs: ['deeper'] },
      { op: 'Cast', inputs: ['deeper'], outputs: ['numbers'], attributes: { to: 6 } },
      { op: 'Shape', inputs: ['embedded'], outputs: ['size'] },
      { op: 'Expand', inputs: ['numbers', 'size'], outputs: ['wide_numbers'] },
      { op: 'Cast', inputs: ['wide_numbers'], outputs: ['wide'], attributes: { to: 9 } },
      { op: 'NonZero', inputs: ['wide'], outputs: ['found'] },
      { op: 'Reshape', inputs: ['image_features', 'last'], outputs: ['all_rows'] },
      { op: 'Shape', inputs: ['places'], outputs: ['size_of_places'] },
      { op: 'Slice', inputs: ['size_of_places', 'zero', 'one'], outputs: ['count'] },
      { op: 'Slice', inputs: ['all_rows', 'zero', 'count', 'zero'], outputs: ['rows'] },
    ],
    initializers: [tensor('last', 'int64', [1], BigInt64Array.of(-1n)), tensor('zero', 'int64', [1], BigInt64Array.of(0n)), tensor('one', 'int64', [1], BigInt64Array.of(1n))],
  }),
  first: () => ({
    nodes: [
      { op: 'Unsqueeze', inputs: ['is_placeholder', 'last'], outputs: ['deeper'] },
      { op: 'NonZero', inputs: ['deeper'], outputs: ['found'] },
      { op: 'Reshape', inputs: ['image_features', 'last'], outputs: ['rows'] },
    ],
    initializers: [tensor('last', 'int64', [1], BigInt64Array.of(-1n))],
  }),
  sum: (width) => ({ ...PLACINGS.rows(width), attributes: { reduction: 'add' } }),
  scaled: (width) => ({ ...PLACINGS.rows(width), behind: [{ op: 'Add', inputs: ['placed', 'placed'], outputs: ['inputs_embeds'] }] }),
  shown: (width) => ({ ...PLACINGS.rows(width), behind: [{ op: 'Identity', inputs: ['placed'], outputs: ['inputs_embeds'] }, { op: 'Neg', inputs: ['placed'], outputs: ['other'] }] }),
  other: (width) => ({ ...PLACINGS.rows(width), comparison: 'Greater' }),
};

/**
 * A model of embeddings that takes features as well, and puts them in the place of a token.
 * @param {Uint8Array} bytes one that takes tokens
 * @param {number} token
 * @param {string} placing one of {@link PLACINGS}
 */
function placing(bytes, token, placing) {
  const { graph, opsetImport } = ModelProto.decode(bytes);
  const [table] = graph.initializer;
  const width = Number(table.dims[1]);
  const { nodes, initializers, attributes = {}, comparison = 'Equal', behind = [{ op: 'Identity', inputs: ['placed'], outputs: ['inputs_embeds'] }] } = PLACINGS[placing](width);
  return writeModel({
    opset: Number(opsetImport[0].version),
    inputs: [
      { name: 'image_features', type: 'float', shape: ['images', 'patches', width] },
      { name: 'input_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] },
    ],
    outputs: behind.map(({ outputs: [name] }) => ({ name })),
    nodes: [
      { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['embedded'], attributes: { axis: 0 } },
      { op: comparison, inputs: ['input_ids', 'token'], outputs: ['is_placeholder'] },
      ...nodes.slice(0, nodes.findIndex(({ op }) => op === 'NonZero') + 1),
      { op: 'Transpose', inputs: ['found'], outputs: ['places'], attributes: { perm: [1, 0] } },
      ...nodes.slice(nodes.findIndex(({ op }) => op === 'NonZero') + 1),
      { op: 'ScatterND', inputs: ['embedded', 'places', 'rows'], outputs: ['placed'], attributes },
      ...behind,
    ],
    initializers: [{ ...table, name: 'table' }, tensor('token', 'int64', [], BigInt64Array.of(BigInt(token))), ...initializers],
  });
}

module.exports = { PATCHES, parts, partsWithLayers, picture, placing, visionEncoder, withAxes };
