'use strict';

// Writes ONNX models for tests.

const path = require('node:path');
const protobuf = require('protobufjs');

const ModelProto = protobuf.loadSync(path.join(__dirname, 'onnx.proto')).lookupType('onnx.ModelProto');

/** Element types: their numbers in the format, and the arrays that hold their elements. */
const TYPES = {
  float: { number: 1, array: Float32Array, webnn: 'float32' },
  uint8: { number: 2, array: Uint8Array, webnn: 'uint8' },
  int8: { number: 3, array: Int8Array, webnn: 'int8' },
  // WebNN has none of 16 bits: int32 stands for them.
  uint16: { number: 4, array: Uint16Array, webnn: 'int32' },
  int16: { number: 5, array: Int16Array, webnn: 'int32' },
  int32: { number: 6, array: Int32Array, webnn: 'int32' },
  int64: { number: 7, array: BigInt64Array, webnn: 'int64' },
  bool: { number: 9, array: Uint8Array, webnn: 'uint8' },
  float16: { number: 10, array: Uint16Array, webnn: 'float16' },
  // WebNN has no double: float32 stands for it.
  double: { number: 11, array: Float64Array, webnn: 'float32' },
  uint32: { number: 12, array: Uint32Array, webnn: 'uint32' },
  uint64: { number: 13, array: BigUint64Array, webnn: 'uint64' },
  // WebNN has none: float32 stands for it. The bits of its elements.
  bfloat16: { number: 16, array: Uint16Array, webnn: 'float32' },
  // Two elements in each byte.
  uint4: { number: 21, array: Uint8Array, webnn: 'uint4' },
  int4: { number: 22, array: Uint8Array, webnn: 'int4' },
};

function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function tensor(name, type, shape, array) {
  return { name, dims: shape, dataType: TYPES[type].number, rawData: bytesOf(array) };
}

/** An attribute of the kind that the value shows. `{float: 1}` and `{floats: [1]}` say what numbers do not. */
function attribute([name, value]) {
  if (typeof value === 'number') return { name, i: value, type: 2 };
  if (typeof value === 'string') return { name, s: Buffer.from(value), type: 3 };
  if (Array.isArray(value)) {
    if (typeof value[0] === 'string') return { name, strings: value.map((text) => Buffer.from(text)), type: 8 };
    return { name, ints: value, type: 7 };
  }
  if ('graph' in value) return { name, g: graphOf(value.graph), type: 5 };
  if ('float' in value) return { name, f: value.float, type: 1 };
  if ('floats' in value) return { name, floats: value.floats, type: 6 };
  return { name, t: value.tensor, type: 4 };
}

function node({ op, domain = '', name = '', inputs, outputs, attributes = {} }) {
  return { opType: op, domain, name, input: inputs, output: outputs, attribute: Object.entries(attributes).map(attribute) };
}

/** With `sequence` and `optional`, which hold such tensors. Without a shape it may be any. */
function valueInfo({ name, type, shape, sequence, optional }) {
  if (type === undefined) return { name };
  const dim = shape?.map((size) => (typeof size === 'string' ? { dimParam: size } : size === null ? {} : { dimValue: size }));
  let held = { tensorType: { elemType: TYPES[type].number, ...(dim && { shape: { dim } }) } };
  if (sequence) held = { sequenceType: { elemType: held } };
  if (optional) held = { optionalType: { elemType: held } };
  return { name, type: held };
}

/**
 * @param {object} model
 * @param {number} model.opset
 * @param {{name: string, type: string, shape: (number | string | null)[]}[]} model.inputs
 * @param {{name: string}[]} model.outputs
 * @param {object[]} model.nodes
 * @param {object[]} [model.initializers]
 * @param {boolean} [model.declares] whether it says which versions of other domains it uses
 * @returns {Uint8Array}
 */
function writeModel({ opset, inputs, outputs, nodes, initializers = [], declares = true }) {
  const opsetImport = [{ domain: '', version: opset }];
  for (const [domain, version] of [['ai.onnx.ml', 3], ['com.microsoft', 1]]) {
    if (declares && nodes.some((node) => node.domain === domain)) opsetImport.push({ domain, version });
  }
  const graph = graphOf({ inputs, outputs, nodes, initializers });
  return ModelProto.encode(ModelProto.fromObject({ irVersion: 8, opsetImport, graph })).finish();
}

/** A model's graph, or that of an attribute. */
function graphOf({ inputs, outputs, nodes, initializers = [] }) {
  return {
    name: 'graph',
    node: nodes.map(node),
    initializer: initializers,
    input: inputs.map(valueInfo),
    output: outputs.map(valueInfo),
  };
}

/** A model with all dimensions of its inputs left open. */
function opened(bytes) {
  const model = ModelProto.decode(bytes);
  for (const { type } of model.graph.input) {
    if (type?.tensorType?.shape) type.tensorType.shape.dim = type.tensorType.shape.dim.map(() => ({}));
  }
  return ModelProto.encode(model).finish();
}

const floats = (...numbers) => Float32Array.from(numbers);
const longs = (...numbers) => BigInt64Array.from(numbers, BigInt);

module.exports = { TYPES, bytesOf, floats, longs, opened, tensor, writeModel };
