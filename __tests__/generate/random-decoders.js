'use strict';

// Small decoders put together at random: where positions come from, what a mask does, which attention there is, how caches lie, and of
// which types the inputs are. Everything is computed anew for each token by onnxruntime-node, in a process of its own: a list of
// {spec, ids} as JSON on the standard input, log-probabilities after each prefix on the standard output.

const { readFileSync } = require('node:fs');
const { generator, halfBits } = require('../onnx/random.js');
const { TYPES, tensor, writeModel } = require('../onnx/write.js');

const TOKENS = 11;
const WIDTH = 8;
const PLACES = 200;
/** As they are in the format. */
const FLOAT = 1;
const INT64 = 7;

const CHOICES = {
  positions: ['position_ids', 'cache_position', 'past', 'mask size', 'mask sum', 'mask sums', 'none'],
  mask: ['added', 'chosen', 'none', 'behind the softmax', 'of values'],
  attention: ['concat', 'is_causal', 'unidirectional', 'GroupQueryAttention', 'scaled by the length', 'scaled by the mask', 'first row', 'turned around', 'averaged', 'greatest'],
  cache: ['rows third', 'rows second', 'rows last'],
  layers: [1, 2],
  maskType: ['int64', 'int32', 'bool', 'float', 'float16', 'double'],
  idsType: ['int64', 'int32'],
  positionsType: ['int64', 'int32', 'float'],
};
/** Attention whose earlier rows do not depend on later ones: the rows that a second layer has are those that were there before. */
const CAUSAL = new Set(['concat', 'is_causal', 'unidirectional', 'GroupQueryAttention']);
/** Caches of operators lie as these say. */
const OF_OPERATORS = new Set(['is_causal', 'unidirectional', 'GroupQueryAttention']);

/**
 * What decoder a seed gives.
 * @param {number} seed
 */
function specOf(seed) {
  const random = generator(seed);
  const spec = { seed };
  for (const [name, list] of Object.entries(CHOICES)) spec[name] = list[Math.floor(random() * list.length)];
  if (!CAUSAL.has(spec.attention)) spec.layers = 1;
  if (OF_OPERATORS.has(spec.attention)) spec.cache = 'rows third';
  return spec;
}

class Sketch {
  constructor(seed) {
    this.random = generator(seed + 1000);
    this.nodes = [];
    this.initializers = [];
    this.inputs = [];
    this.outputs = [];
  }

  constant(type, shape, values) {
    const name = `c${this.initializers.length}`;
    const array = type === 'int64' ? BigInt64Array.from(values, BigInt) : TYPES[type].array.from(values);
    this.initializers.push(tensor(name, type, shape, array));
    return name;
  }

  weights(shape, scale) {
    const count = shape.reduce((a, b) => a * b, 1);
    return this.constant('float', shape, Array.from({ length: count }, () => (this.random() * 2 - 1) * scale));
  }

  int(...values) {
    return this.constant('int64', [values.length], values);
  }

  scalar(value) {
    return this.constant('int64', [], [value]);
  }

  float(value) {
    return this.constant('float', [], [value]);
  }

  add(op, inputs, attributes = {}, outputs = [`v${this.nodes.length}`]) {
    const domain = ['GroupQueryAttention', 'MultiHeadAttention'].includes(op) ? 'com.microsoft' : '';
    this.nodes.push({ op, domain, inputs, outputs, attributes });
    return outputs[0];
  }

  size(of, axis) {
    return this.add('Gather', [this.add('Shape', [of]), this.scalar(axis)]);
  }

  cast(x, to) {
    return this.add('Cast', [x], { to });
  }
}

/** The places of the new tokens, [batch or none, sequence]; nothing for a decoder without. */
function places(s, { positions, positionsType }, past) {
  const length = s.size('input_ids', 1);
  const upTo = (all) => s.add('Range', [s.add('Sub', [all, length]), all, s.scalar(1)]);
  const mask = () => s.cast('attention_mask', INT64);
  switch (positions) {
    case 'past':
      return upTo(s.add('Add', [past, length]));
    case 'mask size':
      return upTo(s.size('attention_mask', 1));
    case 'mask sum':
      return upTo(s.add('ReduceMax', [s.add('ReduceSum', [mask(), s.int(1)], { keepdims: 0 })], { keepdims: 0 }));
    case 'mask sums': {
      const sums = s.add('Sub', [s.add('CumSum', [mask(), s.scalar(1)]), s.scalar(1)]);
      const first = s.add('Unsqueeze', [s.add('Neg', [length]), s.int(0)]);
      return s.add('Slice', [sums, first, s.int(2 ** 31), s.int(1)]);
    }
    case 'none':
      return undefined;
    default:
      s.inputs.push({ name: positions, type: positionsType, shape: positions === 'cache_position' ? ['sequence'] : ['batch', 'sequence'] });
      return s.cast(positions, INT64);
  }
}

/** A cache as it lies, which [batch, 1, rows, WIDTH] is appended to: what is there then, in that order. */
function appended(s, { cache }, layer, what, x) {
  const order = { 'rows third': undefined, 'rows second': [0, 2, 1, 3], 'rows last': [0, 1, 3, 2] }[cache];
  const axis = { 'rows third': 2, 'rows second': 1, 'rows last': 3 }[cache];
  const [past, present] = names(layer, what);
  const shape = ['batch', 1, WIDTH].toSpliced(2, 0, 'past');
  s.inputs.push({ name: past, type: 'float', shape: order === undefined ? shape : order.map((from) => shape[from]) });
  s.outputs.push({ name: present });
  const turned = (y) => (order === undefined ? y : s.add('Transpose', [y], { perm: order }));
  return turned(s.add('Concat', [past, turned(x)], { axis }, [present]));
}

const names = (layer, what) => [`past_key_values.${layer}.${what}`, `present.${layer}.${what}`];

/** Attention of one node. */
function ofOperator(s, { attention, mask }, layer, x, [q, k, v]) {
  const outputs = [`y${layer}`];
  const caches = ['key', 'value'].map((what) => {
    const [past, present] = names(layer, what);
    s.inputs.push({ name: past, type: 'float', shape: ['batch', 1, 'past', WIDTH] });
    s.outputs.push({ name: present });
    outputs.push(present);
    return past;
  });
  const given = () => s.add('Unsqueeze', [s.cast('attention_mask', 9), s.int(1, 2)]);
  // As long as the queries, which both want.
  const zeros = () => s.add('Mul', [s.add('Unsqueeze', [s.add('ReduceSum', [q, s.int(2)]), s.int(1)]), s.float(0)]);
  const low = () => s.add('Add', [s.add('Where', [given(), s.float(0), s.float(-3e4)]), zeros()]);
  const bias = attention !== 'GroupQueryAttention' && ['added', 'chosen'].includes(mask) ? low() : '';
  if (attention === 'is_causal') {
    return s.add('Attention', [q, k, v, bias, ...caches], { is_causal: 1, q_num_heads: 1, kv_num_heads: 1 }, outputs);
  }
  if (attention === 'unidirectional') {
    return s.add('MultiHeadAttention', [q, k, v, '', '', bias, ...caches], { num_heads: 1, unidirectional: 1 }, outputs);
  }
  const sum = s.add('ReduceSum', [s.cast('attention_mask', INT64), s.int(1)], { keepdims: 0 });
  const [last, total] = [s.cast(s.add('Sub', [sum, s.scalar(1)]), 6), s.cast(s.size('attention_mask', 1), 6)];
  return s.add('GroupQueryAttention', [q, k, v, ...caches, last, total], { num_heads: 1, kv_num_heads: 1 }, outputs);
}

/** Attention written out. */
function written(s, spec, layer, [q, k, v], past) {
  const { attention, mask } = spec;
  const [query, newKey, newValue] = [q, k, v].map((x) => s.add('Unsqueeze', [x, s.int(1)]));
  const key = appended(s, spec, layer, 'key', newKey);
  let value = appended(s, spec, layer, 'value', newValue);
  const rows = s.size(key, 2);
  const given = (to) => s.add('Unsqueeze', [s.cast('attention_mask', to), s.int(1, 2)]);
  let scores = s.add('MatMul', [query, s.add('Transpose', [key], { perm: [0, 1, 3, 2] })]);
  if (attention === 'scaled by the length') scores = s.add('Div', [scores, s.add('Sqrt', [s.cast(rows, FLOAT)])]);
  if (attention === 'scaled by the mask') scores = s.add('Div', [scores, s.add('Sqrt', [s.cast(s.add('ReduceSum', [s.cast('attention_mask', INT64)], { keepdims: 0 }), FLOAT)])]);
  const square = s.add('Slice', [s.add('Shape', [scores]), s.int(2), s.int(4)]);
  const causal = s.add('Trilu', [s.add('Expand', [s.float(1), square]), past], { upper: 0 });
  scores = s.add('Add', [scores, s.add('Mul', [s.add('Sub', [s.float(1), causal]), s.float(-3e4)])]);
  if (mask === 'added') scores = s.add('Add', [scores, s.add('Mul', [s.add('Sub', [s.float(1), given(FLOAT)]), s.float(-3e4)])]);
  if (mask === 'chosen') scores = s.add('Where', [given(9), scores, s.float(-Infinity)]);
  let weights = s.add('Softmax', [scores], { axis: -1 });
  if (mask === 'behind the softmax') weights = s.add('Mul', [weights, given(FLOAT)]);
  if (mask === 'of values') value = s.add('Mul', [value, s.add('Transpose', [given(FLOAT)], { perm: [0, 1, 3, 2] })]);
  if (attention === 'turned around') {
    const back = (x, axis) => s.add('Slice', [x, s.int(-1), s.int(-(2 ** 31)), s.int(axis), s.int(-1)]);
    value = back(value, 2);
  }
  let y = s.add('MatMul', [weights, value]);
  if (attention === 'first row') y = s.add('Add', [y, s.add('Slice', [value, s.int(0), s.int(1), s.int(2)])]);
  if (attention === 'averaged') y = s.add('Add', [y, s.add('ReduceMean', [value, s.int(2)])]);
  if (attention === 'greatest') y = s.add('Add', [y, s.add('ReduceMax', [value, s.int(2)])]);
  return s.add('Squeeze', [y, s.int(1)]);
}

/**
 * @param {ReturnType<typeof specOf>} spec
 * @returns {Uint8Array}
 */
function decoderOf(spec) {
  const s = new Sketch(spec.seed);
  s.inputs.push({ name: 'input_ids', type: spec.idsType, shape: ['batch', 'sequence'] });
  s.inputs.push({ name: 'attention_mask', type: spec.maskType, shape: ['batch', 'all rows'] });
  s.outputs.push({ name: 'logits' });
  let x = s.add('Gather', [s.weights([TOKENS, WIDTH], 0.9), 'input_ids']);
  const axis = spec.cache === 'rows second' ? 1 : spec.cache === 'rows last' ? 3 : 2;
  const past = s.size(names(0, 'key')[0], axis);
  const at = places(s, spec, past);
  if (at !== undefined) x = s.add('Add', [x, s.add('Gather', [s.weights([PLACES, WIDTH], 0.9), at])]);
  for (let layer = 0; layer < spec.layers; layer++) {
    const parts = [0, 1, 2].map(() => s.add('MatMul', [x, s.weights([WIDTH, WIDTH], 0.7)]));
    const y = OF_OPERATORS.has(spec.attention) ? ofOperator(s, spec, layer, x, parts) : written(s, spec, layer, parts, past);
    x = s.add('Add', [x, y]);
  }
  s.add('MatMul', [x, s.weights([WIDTH, TOKENS], 2)], {}, ['logits']);
  return writeModel({ opset: 23, inputs: s.inputs, outputs: s.outputs, nodes: s.nodes, initializers: s.initializers });
}

/** The numbers of an input, of a type. */
function numbersOf(type, list) {
  if (type === 'int64') return BigInt64Array.from(list, BigInt);
  return type === 'float16' ? Uint16Array.from(list, halfBits) : TYPES[type].array.from(list);
}

/** The logits after the last token, of all tokens at once. */
async function logitsOf(ort, session, ids) {
  const names = { float: 'float32', double: 'float64' };
  const make = (type, list, shape) => new ort.Tensor(type, list, shape);
  const [all, count] = [ids.map((_, i) => i), ids.length];
  const given = { input_ids: [ids, [1, count]], attention_mask: [ids.map(() => 1), [1, count]], position_ids: [all, [1, count]], cache_position: [all, [count]] };
  const feeds = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const [list, of] = given[name] ?? [[], shape.map((size) => (size === 'batch' ? 1 : typeof size === 'string' ? 0 : size))];
    const plain = Object.keys(names).find((key) => names[key] === type) ?? type;
    feeds[name] = make(type, numbersOf(plain, list), of);
  }
  const { logits } = await session.run(feeds, ['logits']);
  return Array.from(logits.data.slice(-TOKENS));
}

async function main() {
  const ort = require('onnxruntime-node');
  const found = [];
  for (const { spec, lists } of JSON.parse(readFileSync(0, 'utf8'))) {
    const session = await ort.InferenceSession.create(decoderOf(spec), { intraOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 3 });
    const of = [];
    for (const ids of lists) {
      const logits = await logitsOf(ort, session, ids);
      const most = Math.max(...logits);
      const sum = logits.reduce((total, x) => total + Math.exp(x - most), 0);
      of.push(logits.map((x) => x - most - Math.log(sum)));
    }
    found.push(of);
    await session.release();
  }
  process.stdout.write(JSON.stringify(found));
}

if (require.main === module) main();

module.exports = { TOKENS, decoderOf, specOf };
