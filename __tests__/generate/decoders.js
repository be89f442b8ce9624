'use strict';

// Small decoders with the operators and names of different exporters.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { tensor, writeModel } = require('../onnx/write.js');

const TOKENS = 40;
const WIDTH = 64;
const HEADS = 4;
const KEY_HEADS = 2;
const HEAD = WIDTH / HEADS;
const LONGEST = 256;

/** Numbers of mean 0, the same each time. */
function numbers(count, scale, seed) {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * scale;
  });
}

/** A model under construction. */
class Sketch {
  constructor() {
    this.nodes = [];
    this.initializers = [];
    this.inputs = [];
    this.outputs = [];
  }

  constant(type, shape, values) {
    const name = `c${this.initializers.length}`;
    const array = type === 'int64' ? BigInt64Array.from(values, BigInt) : type === 'int32' ? Int32Array.from(values) : Float32Array.from(values);
    this.initializers.push(tensor(name, type, shape, array));
    return name;
  }

  weights(shape, scale = 2) {
    const count = shape.reduce((a, b) => a * b, 1);
    return this.constant('float', shape, numbers(count, scale, 17 + this.initializers.length));
  }

  add(op, inputs, attributes = {}, outputs = [`v${this.nodes.length}`]) {
    const domain = ['GroupQueryAttention', 'MultiHeadAttention'].includes(op) ? 'com.microsoft' : '';
    this.nodes.push({ op, domain, inputs, outputs, attributes });
    return outputs[0];
  }

  size(of, axis) {
    const shape = this.add('Shape', [of]);
    return this.add('Gather', [shape, this.constant('int64', [], [axis])], { axis: 0 });
  }

  heads(x, count) {
    const shape = this.constant('int64', [4], [0, 0, count, HEAD]);
    return this.add('Transpose', [this.add('Reshape', [x, shape])], { perm: [0, 2, 1, 3] });
  }

  /** Keys and values with what is cached before them, as exporters of the attention of PyTorch write it. */
  appended(layer, k, v) {
    return [['key', k], ['value', v]].map(([what, x]) => {
      const [past, present] = this.cache(layer, what);
      return this.add('Concat', [past, x], { axis: -2 }, [present]);
    });
  }

  cache(layer, what) {
    const [past, present] = [`past_key_values.${layer}.${what}`, `present.${layer}.${what}`];
    this.inputs.push({ name: past, type: 'float', shape: ['batch_size', KEY_HEADS, 'past_sequence_length', HEAD] });
    this.outputs.push({ name: present });
    return [past, present];
  }

  repeated(x) {
    const wide = this.add('Unsqueeze', [x, this.constant('int64', [1], [2])]);
    const length = this.add('Unsqueeze', [this.size(x, 2), this.constant('int64', [1], [0])]);
    const part = (list) => this.constant('int64', [list.length], list);
    const shape = this.add('Concat', [part([1, KEY_HEADS, HEADS / KEY_HEADS]), length, part([HEAD])], { axis: 0 });
    const joined = this.add('Concat', [part([1, HEADS]), length, part([HEAD])], { axis: 0 });
    return this.add('Reshape', [this.add('Expand', [wide, shape]), joined]);
  }

  /** What hides keys: those that come later, and those whose mask is 0. */
  bias(ids, mask) {
    const zero = this.constant('int64', [], [0]);
    const one = this.constant('int64', [], [1]);
    const [length, total] = [this.size(ids, 1), mask === undefined ? this.total : this.size(mask, 1)];
    const keys = this.add('Range', [zero, total, one]);
    const queries = this.add('Add', [this.add('Range', [zero, length, one]), this.add('Sub', [total, length])]);
    const column = this.add('Unsqueeze', [queries, this.constant('int64', [1], [1])]);
    let shown = this.add('LessOrEqual', [keys, column]);
    if (mask !== undefined) {
      const given = this.add('Unsqueeze', [this.add('Cast', [mask], { to: 9 }), this.constant('int64', [1], [1])]);
      shown = this.add('And', [shown, given]);
    }
    return this.add('Where', [shown, this.constant('float', [], [0]), this.constant('float', [], [-3.4e38])]);
  }
}

/**
 * @param {'concat' | 'unmasked' | 'GroupQueryAttention' | 'MultiHeadAttention'} kind
 * @returns {Uint8Array}
 */
function decoder(kind) {
  const s = new Sketch();
  const ids = 'input_ids';
  s.inputs.push({ name: ids, type: 'int64', shape: ['batch_size', 'sequence_length'] });
  s.outputs.push({ name: 'logits' });
  const mask = kind === 'unmasked' ? undefined : 'attention_mask';
  if (mask !== undefined) s.inputs.push({ name: mask, type: 'int64', shape: ['batch_size', 'total_sequence_length'] });
  let x = s.add('Gather', [s.weights([TOKENS, WIDTH]), ids], { axis: 0 });
  let lengths;
  let total;
  if (kind === 'GroupQueryAttention') {
    const sum = s.add('ReduceSum', [mask, s.constant('int64', [1], [1])], { keepdims: 1 });
    lengths = s.add('Cast', [s.add('Sub', [sum, s.constant('int64', [1], [1])])], { to: 6 });
    total = s.add('Cast', [s.size(mask, 1)], { to: 6 });
  } else {
    s.inputs.push({ name: 'position_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] });
    x = s.add('Add', [x, s.add('Gather', [s.weights([LONGEST, WIDTH]), 'position_ids'], { axis: 0 })]);
  }
  for (let layer = 0; layer < 2; layer++) {
    const normal = s.add('LayerNormalization', [x, s.weights([WIDTH])]);
    const project = (width) => s.add('MatMul', [normal, s.weights([WIDTH, width], 0.6)]);
    const keys = kind === 'MultiHeadAttention' ? HEADS : KEY_HEADS;
    const [q, k, v] = [project(WIDTH), project(keys * HEAD), project(keys * HEAD)];
    x = s.add('Add', [x, attention(s, kind, layer, { q, k, v, ids, mask, lengths, total })]);
  }
  s.add('MatMul', [x, s.weights([WIDTH, TOKENS], 0.6)], {}, ['logits']);
  return writeModel({ opset: 17, inputs: s.inputs, outputs: s.outputs, nodes: s.nodes, initializers: s.initializers });
}

function attention(s, kind, layer, { q, k, v, ids, mask, lengths, total }) {
  if (kind === 'GroupQueryAttention') {
    const [keys, values] = [s.cache(layer, 'key'), s.cache(layer, 'value')];
    const angles = Array.from({ length: (LONGEST * HEAD) / 2 }, (_, i) => Math.floor(i / (HEAD / 2)) / 10 ** (i % (HEAD / 2)));
    const [cos, sin] = [Math.cos, Math.sin].map((of) => s.constant('float', [LONGEST, HEAD / 2], angles.map(of)));
    const outputs = [`a${layer}`, keys[1], values[1]];
    const attributes = { num_heads: HEADS, kv_num_heads: KEY_HEADS, do_rotary: 1, local_window_size: layer === 0 ? 9 : -1 };
    return s.add('GroupQueryAttention', [q, k, v, keys[0], values[0], lengths, total, cos, sin], attributes, outputs);
  }
  if (kind === 'MultiHeadAttention') {
    const cache = (what) => {
      const names = s.cache(layer, what);
      s.inputs.at(-1).shape[1] = HEADS;
      return names;
    };
    const [keys, values] = [cache('key'), cache('value')];
    // A mask for all keys, as onnxruntime's optimizer leaves it.
    const bias = s.add('Unsqueeze', [s.bias(ids, mask), s.constant('int64', [1], [1])]);
    const outputs = [`a${layer}`, keys[1], values[1]];
    return s.add('MultiHeadAttention', [q, k, v, '', '', bias, keys[0], values[0]], { num_heads: HEADS }, outputs);
  }
  const [query, key, value] = [s.heads(q, HEADS), s.heads(k, KEY_HEADS), s.heads(v, KEY_HEADS)];
  const [allKeys, allValues] = s.appended(layer, key, value);
  if (mask === undefined) s.total = s.size(allKeys, 2);
  const [wideKeys, wideValues] = [s.repeated(allKeys), s.repeated(allValues)];
  const products = s.add('MatMul', [query, s.add('Transpose', [wideKeys], { perm: [0, 1, 3, 2] })]);
  const scaled = s.add('Mul', [products, s.constant('float', [], [1 / Math.sqrt(HEAD)])]);
  let bias = s.bias(ids, mask);
  if (mask !== undefined) bias = s.add('Unsqueeze', [bias, s.constant('int64', [1], [1])]);
  const weights = s.add('Softmax', [s.add('Add', [scaled, bias])], { axis: -1 });
  const result = s.add('Transpose', [s.add('MatMul', [weights, wideValues])], { perm: [0, 2, 1, 3] });
  return s.add('Reshape', [result, s.constant('int64', [3], [0, 0, WIDTH])]);
}

/**
 * The most probable tokens behind prompts, as onnxruntime-node gives them in a process of its own: jest's arrays are not those that it
 * takes.
 * @param {{kind: string, prompt: number[], count: number}[]} list
 * @returns {{id: number, logprob: number}[][]}
 */
function expected(list) {
  const script = path.join(__dirname, 'reference.js');
  return JSON.parse(execFileSync(process.execPath, [script], { input: JSON.stringify(list), maxBuffer: 1 << 28 }));
}

const KINDS = ['concat', 'unmasked', 'GroupQueryAttention', 'MultiHeadAttention'];

module.exports = { HEAD, KINDS, TOKENS, decoder, expected };
