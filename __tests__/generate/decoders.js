'use strict';

// Small decoders with the operators and names of different exporters.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const protobuf = require('protobufjs');
const { halfBits } = require('../onnx/random.js');
const { TYPES, tensor, writeModel } = require('../onnx/write.js');
const { seededNumbers } = require('../seeded-numbers.js');

const ModelProto = protobuf.loadSync(path.join(__dirname, '../onnx/onnx.proto')).lookupType('onnx.ModelProto');

const TOKENS = 40;
const WIDTH = 64;
const HEADS = 4;
const KEY_HEADS = 2;
const HEAD = WIDTH / HEADS;
const LONGEST = 256;
const BLOCK = 32;

/** Operators of com.microsoft. */
const CONTRIBUTED = new Set(['CausalConvWithState', 'DecoderMaskedMultiHeadAttention', 'GatedRMSNorm', 'GatherBlockQuantized', 'GroupQueryAttention', 'LinearAttention', 'LinearAttentionGate', 'MatMulNBits', 'MultiHeadAttention', 'QMoE', 'SkipSimplifiedLayerNormalization']);

/** A model under construction. */
class Sketch {
  /** @param {number | string} [headSize] the last dimension of the caches, as the file has it */
  constructor(headSize = HEAD) {
    this.headSize = headSize;
    this.nodes = [];
    this.initializers = [];
    this.inputs = [];
    this.outputs = [];
  }

  /** Weights of 4 bits in blocks, as MatMulNBits has them: 18 bytes and more of each 32. */
  bits(inputs, outputs) {
    const blocks = inputs / BLOCK;
    const bytes = Uint8Array.from(seededNumbers((outputs * inputs) / 2, 256, 71 + this.initializers.length), (x) => Math.floor(x + 128));
    const name = `c${this.initializers.length}`;
    this.initializers.push(tensor(name, 'uint8', [outputs, blocks, BLOCK / 2], bytes));
    const scales = this.constant('float', [outputs, blocks], seededNumbers(outputs * blocks, 0.02, 5).map((x) => 0.03 + x));
    return [name, scales];
  }

  /** A projection whose weights have 4 bits. */
  project(x, inputs, outputs, bits = this.bits(inputs, outputs)) {
    const attributes = { K: inputs, N: outputs, bits: 4, block_size: BLOCK, accuracy_level: 1 };
    return this.add('MatMulNBits', [x, ...bits], attributes);
  }

  constant(type, shape, values) {
    const name = `c${this.initializers.length}`;
    const array = type === 'int64' ? BigInt64Array.from(values, BigInt) : type === 'int32' ? Int32Array.from(values) : Float32Array.from(values);
    this.initializers.push(tensor(name, type, shape, array));
    return name;
  }

  weights(shape, scale = 2) {
    const count = shape.reduce((a, b) => a * b, 1);
    return this.constant('float', shape, seededNumbers(count, scale, 17 + this.initializers.length));
  }

  add(op, inputs, attributes = {}, outputs = [`v${this.nodes.length}`]) {
    const domain = CONTRIBUTED.has(op) ? 'com.microsoft' : '';
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
  appended(layer, k, v, needsRows = false) {
    return [['key', k], ['value', v]].map(([what, x]) => {
      const [past, present] = this.cache(layer, what);
      if (needsRows) {
        // Of no elements the size of a head cannot be found. It comes to nothing.
        const again = this.add('Reshape', [past, this.constant('int64', [4], [0, 0, 0, -1])]);
        const sum = this.add('Mul', [this.add('ReduceSum', [again, this.constant('int64', [1], [2])]), this.constant('float', [], [0])]);
        return this.add('Concat', [past, this.add('Add', [x, sum])], { axis: -2 }, [present]);
      }
      return this.add('Concat', [past, x], { axis: -2 }, [present]);
    });
  }

  cache(layer, what) {
    const [past, present] = [`past_key_values.${layer}.${what}`, `present.${layer}.${what}`];
    this.inputs.push({ name: past, type: 'float', shape: ['batch_size', KEY_HEADS, 'past_sequence_length', this.headSize] });
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

  /** The same as onnxruntime-genai's builder writes it beside concatenations: of several tokens with none before them, or of a single one. */
  biasAlone(ids, mask) {
    const [zero, one, last] = [this.constant('int64', [], [0]), this.constant('int64', [], [1]), this.constant('int64', [1], [1])];
    const [none, least] = [this.constant('float', [], [0]), this.constant('float', [], [-3e38])];
    const places = this.add('Range', [zero, this.size(ids, 1), one]);
    const later = this.add('Less', [this.add('Unsqueeze', [places, last]), places]);
    const square = this.add('Where', [later, least, none]);
    const size = (value, axis) => this.add('Unsqueeze', [this.size(value, axis), this.constant('int64', [1], [0])]);
    const all = this.add('Concat', [size(ids, 1), size(mask, 1)], { axis: 0 });
    const given = this.add('Where', [this.add('Cast', [mask], { to: 9 }), none, least]);
    return this.add('Unsqueeze', [this.add('Min', [this.add('Expand', [square, all]), given]), this.constant('int64', [1], [0])]);
  }
}

/** What attention with packed queries, keys and values reads of a mask, as onnxruntime-genai's builder writes it. */
function lengthsOf(s, mask) {
  const sum = s.add('ReduceSum', [mask, s.constant('int64', [1], [1])], { keepdims: 0 });
  const last = s.add('Cast', [s.add('Sub', [sum, s.constant('int64', [1], [1])])], { to: 6 });
  return [last, s.add('Cast', [s.size(mask, 1)], { to: 6 })];
}

function rotaryCaches(s) {
  const angles = Array.from({ length: (LONGEST * HEAD) / 2 }, (_, i) => Math.floor(i / (HEAD / 2)) / 10 ** (i % (HEAD / 2)));
  return [Math.cos, Math.sin].map((of) => s.constant('float', [LONGEST, HEAD / 2], angles.map(of)));
}

/** A layer of a decoder as onnxruntime-genai's builder writes it: attention to all keys, or to those of a window that its cache follows. */
function builtAttention(s, layer, x, [last, total], window) {
  const packed = s.project(x, WIDTH, WIDTH + 2 * KEY_HEADS * HEAD);
  const caches = ['key', 'value'].map((what) => s.cache(layer, what));
  const attributes = { num_heads: HEADS, kv_num_heads: KEY_HEADS, scale: { float: 1 / Math.sqrt(HEAD) }, local_window_size: window ?? -1, softcap: { float: 0 }, do_rotary: 1, rotary_interleaved: 0 };
  if (window !== undefined) {
    attributes.sliding_window_cache = 1;
    for (const input of s.inputs.slice(-2)) input.shape[2] = window;
  }
  const sinks = window === undefined ? [] : ['', '', s.weights([HEADS])];
  const inputs = [packed, '', '', caches[0][0], caches[1][0], last, total, ...rotaryCaches(s), ...sinks];
  const result = s.add('GroupQueryAttention', inputs, attributes, [`a${layer}`, caches[0][1], caches[1][1]]);
  return s.project(result, WIDTH, WIDTH);
}

/** A layer of linear attention after a convolution, with states instead of caches. */
function builtRecurrence(s, layer, x) {
  const [keys, values, all] = [2 * HEAD, 4 * HEAD, 8 * HEAD];
  const state = (what, shape) => {
    const [past, present] = [`past_key_values.${layer}.${what}`, `present.${layer}.${what}`];
    s.inputs.push({ name: past, type: 'float', shape: ['batch_size', ...shape] });
    s.outputs.push({ name: present });
    return [past, present];
  };
  const [conv, recurrent] = [state('conv_state', [all, 3]), state('recurrent_state', [4, HEAD, HEAD])];
  const columns = s.add('Transpose', [s.project(x, WIDTH, all)], { perm: [0, 2, 1] });
  const filter = [s.weights([all, 1, 4]), s.weights([all], 0.1)];
  const convolved = s.add('CausalConvWithState', [columns, ...filter, conv[0]], { ndim: 1, activation: 'silu' }, [`conv${layer}`, conv[1]]);
  const rows = s.add('Transpose', [convolved], { perm: [0, 2, 1] });
  const parts = [0, 1, 2].map((i) => `part${layer}${i}`);
  s.add('Split', [rows, s.constant('int64', [3], [keys, keys, values])], { axis: -1 }, parts);
  const unit = (part) => {
    const apart = s.add('Reshape', [part, s.constant('int64', [4], [0, 0, 2, HEAD])]);
    return s.add('Reshape', [s.add('LpNormalization', [apart], { axis: -1, p: 2 }), s.constant('int64', [3], [0, 0, keys])]);
  };
  const query = s.add('Mul', [unit(parts[0]), s.constant('float', [], [1 / Math.sqrt(HEAD)])]);
  const gates = [`decay${layer}`, `rate${layer}`];
  s.add('LinearAttentionGate', [s.project(x, WIDTH, 4), s.weights([4]), s.constant('float', [4], [-0.5, -1, -0.2, -2]), s.project(x, WIDTH, 4)], {}, gates);
  const attributes = { q_num_heads: 2, kv_num_heads: 4, update_rule: 'gated_delta', scale: { float: 1 } };
  const result = s.add('LinearAttention', [query, unit(parts[1]), parts[2], recurrent[0], ...gates], attributes, [`a${layer}`, recurrent[1]]);
  const normal = s.add('GatedRMSNorm', [result, s.weights([HEAD]), s.project(x, WIDTH, values)], { epsilon: { float: 1e-5 } });
  return s.project(normal, values, WIDTH);
}

function builtExperts(s, x) {
  const [count, rows] = [4, s.constant('int64', [2], [-1, 4])];
  const router = s.add('Reshape', [s.project(x, WIDTH, count), rows]);
  const weights = (outputs, inputs) => {
    const [bytes, scales] = s.bits(inputs, count * outputs);
    s.initializers.find(({ name }) => name === bytes).dims = [count, outputs, inputs / 2];
    s.initializers.find(({ name }) => name === scales).dims = [count, outputs, inputs / BLOCK];
    return [bytes, scales];
  };
  const inputs = [x, router, ...weights(2 * WIDTH, WIDTH), s.weights([count, 2 * WIDTH], 0.1), ...weights(WIDTH, WIDTH), s.weights([count, WIDTH], 0.1)];
  const attributes = { k: 2, expert_weight_bits: 4, block_size: BLOCK, activation_type: 'swiglu', swiglu_fusion: 1, activation_alpha: { float: 1.702 }, activation_beta: { float: 1 }, swiglu_limit: { float: 7 }, normalize_routing_weights: 1, use_sparse_mixer: 0 };
  return s.add('QMoE', inputs, attributes);
}

function builtGates(s, x) {
  const [gate, up] = [s.project(x, WIDTH, 2 * WIDTH), s.project(x, WIDTH, 2 * WIDTH)];
  const active = s.add('Mul', [gate, s.add('Sigmoid', [gate])]);
  return s.project(s.add('Mul', [active, up]), 2 * WIDTH, WIDTH);
}

/**
 * A decoder with the operators and names that onnxruntime-genai's builder writes for the CPU.
 * @param {string} kind
 * @param {number | string} [headSize]
 * @returns {Uint8Array}
 */
function built(kind, headSize) {
  const s = new Sketch(headSize);
  s.inputs.push({ name: 'input_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] });
  s.inputs.push({ name: 'attention_mask', type: 'int64', shape: ['batch_size', 'total_sequence_length'] });
  s.outputs.push({ name: 'logits' });
  const lengths = lengthsOf(s, 'attention_mask');
  // The embeddings may be the rows of the last projection.
  const head = s.bits(WIDTH, TOKENS);
  const isTied = kind === 'genai with states';
  const rows = isTied && s.add('Reshape', [head[0], s.constant('int64', [2], [TOKENS, WIDTH / 2])]);
  const tied = { bits: 4, block_size: BLOCK, gather_axis: 0, quantize_axis: 1 };
  let sum = isTied ? s.add('GatherBlockQuantized', [rows, 'input_ids', head[1]], tied) : s.add('Gather', [s.weights([TOKENS, WIDTH]), 'input_ids'], { axis: 0 });
  let x = s.add('SimplifiedLayerNormalization', [sum, s.weights([WIDTH])], { axis: -1, epsilon: { float: 1e-5 }, stash_type: 1 });
  const skip = (added) => {
    const outputs = [`n${s.nodes.length}`, '', '', `s${s.nodes.length}`];
    x = s.add('SkipSimplifiedLayerNormalization', [sum, added, s.weights([WIDTH])], { epsilon: { float: 1e-5 } }, outputs);
    sum = outputs[3];
  };
  for (let layer = 0; layer < 2; layer++) {
    const recurs = kind === 'genai with states' && layer === 0;
    const window = kind === 'genai with windows' && layer === 0 ? 8 : undefined;
    skip(recurs ? builtRecurrence(s, layer, x) : builtAttention(s, layer, x, lengths, window));
    skip(kind === 'genai' ? builtGates(s, x) : builtExperts(s, x));
  }
  const logits = s.project(x, WIDTH, TOKENS, head);
  s.nodes.at(-1).outputs = s.nodes.at(-1).outputs.map((name) => (name === logits ? 'logits' : name));
  return writeModel({ opset: 21, inputs: s.inputs, outputs: s.outputs, nodes: s.nodes, initializers: s.initializers });
}

/**
 * @param {string} kind one of KINDS or WITH_STATES
 * @param {number | string} [headSize] the last dimension of the caches, as the file has it
 * @param {number} [tokens] of the vocabulary, but not of those of onnxruntime-genai
 * @returns {Uint8Array}
 */
function decoder(kind, headSize, tokens = TOKENS) {
  if (kind.startsWith('genai')) return built(kind, headSize);
  const s = new Sketch(headSize);
  const ids = 'input_ids';
  s.inputs.push({ name: ids, type: 'int64', shape: ['batch_size', 'sequence_length'] });
  s.outputs.push({ name: 'logits' });
  const mask = ['unmasked', ...OF_A_SIZE].includes(kind) ? undefined : 'attention_mask';
  const told = { TensorScatter: ['write_indices', 'nonpad_kv_seqlen'], DecoderMaskedMultiHeadAttention: ['past_sequence_length'], 'shared MultiHeadAttention': ['past_sequence_length'] }[kind] ?? [];
  for (const name of told) s.inputs.push({ name, type: name === 'past_sequence_length' ? 'int32' : 'int64', shape: [name === 'past_sequence_length' ? 1 : 'batch_size'] });
  if (mask !== undefined) s.inputs.push({ name: mask, type: 'int64', shape: ['batch_size', 'total_sequence_length'] });
  let x = s.add('Gather', [s.weights([tokens, WIDTH]), ids], { axis: 0 });
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
    const keys = kind.endsWith('MultiHeadAttention') ? HEADS : KEY_HEADS;
    const [q, k, v] = [project(WIDTH), project(keys * HEAD), project(keys * HEAD)];
    x = s.add('Add', [x, attention(s, kind, layer, { q, k, v, ids, mask, lengths, total })]);
  }
  s.add('MatMul', [x, s.weights([WIDTH, tokens], 0.6)], {}, ['logits']);
  return writeModel({ opset: kind === 'TensorScatter' ? 24 : 17, inputs: s.inputs, outputs: s.outputs, nodes: s.nodes, initializers: s.initializers });
}

function attention(s, kind, layer, { q, k, v, ids, mask, lengths, total }) {
  if (kind === 'GroupQueryAttention') {
    const [keys, values] = [s.cache(layer, 'key'), s.cache(layer, 'value')];
    const [cos, sin] = rotaryCaches(s);
    const outputs = [`a${layer}`, keys[1], values[1]];
    const attributes = { num_heads: HEADS, kv_num_heads: KEY_HEADS, do_rotary: 1, local_window_size: layer === 0 ? 9 : -1 };
    return s.add('GroupQueryAttention', [q, k, v, keys[0], values[0], lengths, total, cos, sin], attributes, outputs);
  }
  if (kind === 'TensorScatter') {
    const [keys, values] = [[k, 'key'], [v, 'value']].map(([x, what]) => {
      const [past, present] = s.cache(layer, what);
      return s.add('TensorScatter', [past, s.heads(x, KEY_HEADS), 'write_indices'], { axis: 2 }, [present]);
    });
    const result = s.add('Attention', [s.heads(q, HEADS), keys, values, '', '', '', 'nonpad_kv_seqlen'], { is_causal: 1 });
    const joined = s.add('Transpose', [result], { perm: [0, 2, 1, 3] });
    return s.add('Reshape', [joined, s.constant('int64', [3], [0, 0, WIDTH])]);
  }
  if (kind === 'DecoderMaskedMultiHeadAttention' || kind === 'shared MultiHeadAttention') {
    const [keys, values] = ['key', 'value'].map((what) => {
      const names = s.cache(layer, what);
      s.inputs.at(-1).shape[1] = HEADS;
      return names;
    });
    if (kind === 'shared MultiHeadAttention') {
      const inputs = [q, k, v, '', '', '', keys[0], values[0], 'past_sequence_length'];
      return s.add('MultiHeadAttention', inputs, { num_heads: HEADS, unidirectional: 1 }, [`a${layer}`, keys[1], values[1]]);
    }
    const attributes = { num_heads: HEADS, past_present_share_buffer: 1 };
    return s.add('DecoderMaskedMultiHeadAttention', [q, k, v, '', '', keys[0], values[0], 'past_sequence_length'], attributes, [`a${layer}`, keys[1], values[1]]);
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
  const [allKeys, allValues] = s.appended(layer, key, value, kind === 'pasts with rows');
  if (mask === undefined) s.total = s.size(allKeys, 2);
  const [wideKeys, wideValues] = [s.repeated(allKeys), s.repeated(allValues)];
  const products = s.add('MatMul', [query, s.add('Transpose', [wideKeys], { perm: [0, 1, 3, 2] })]);
  const scaled = s.add('Mul', [products, s.constant('float', [], [1 / Math.sqrt(HEAD)])]);
  let bias = kind === 'prompts alone' ? s.biasAlone(ids, mask) : s.bias(ids, mask);
  if (mask !== undefined) bias = s.add('Unsqueeze', [bias, s.constant('int64', [1], [1])]);
  const weights = s.add('Softmax', [s.add('Add', [scaled, bias])], { axis: -1 });
  const result = s.add('Transpose', [s.add('MatMul', [weights, wideValues])], { perm: [0, 2, 1, 3] });
  return s.add('Reshape', [result, s.constant('int64', [3], [0, 0, WIDTH])]);
}

/**
 * A decoder that adds the greatest number of a cache to all logits: padding may change it, so there is a graph for each length.
 * @param {Uint8Array} bytes
 */
function withGreatest(bytes) {
  const model = ModelProto.toObject(ModelProto.decode(bytes));
  const { node, output } = model.graph;
  const { name: cache } = output.find(({ name }) => name !== 'logits');
  node.find(({ output: [name] }) => name === 'logits').output = ['own_logits'];
  node.push({ opType: 'ReduceMax', input: [cache], output: ['greatest'], attribute: [{ name: 'keepdims', i: 0, type: 2 }] }, { opType: 'Add', input: ['own_logits', 'greatest'], output: ['logits'] });
  return ModelProto.encode(ModelProto.fromObject(model)).finish();
}

/**
 * A decoder with float16 in the place of float32.
 * @param {Uint8Array} bytes
 */
function halved(bytes) {
  const model = ModelProto.toObject(ModelProto.decode(bytes));
  const isFloat = ({ dataType }) => dataType === TYPES.float.number;
  const halve = (tensor) => {
    // What hides scores stays finite.
    const numbers = new Float32Array(new Uint8Array(tensor.rawData).buffer).map((x) => Math.max(x, -65504));
    Object.assign(tensor, { dataType: TYPES.float16.number, rawData: Buffer.from(Uint16Array.from(numbers, halfBits).buffer) });
  };
  model.graph.initializer.filter(isFloat).forEach(halve);
  for (const { type } of model.graph.input) if (type.tensorType.elemType === TYPES.float.number) type.tensorType.elemType = TYPES.float16.number;
  for (const { opType, attribute = [] } of model.graph.node) {
    for (const one of attribute) {
      if (one.t && isFloat(one.t)) halve(one.t);
      if (opType === 'Cast' && one.name === 'to' && Number(one.i) === TYPES.float.number) one.i = TYPES.float16.number;
    }
  }
  return ModelProto.encode(ModelProto.fromObject(model)).finish();
}

/**
 * A decoder whose products with weights are those of integers, with one scale for all numbers of the other operand, as onnxruntime's dynamic
 * quantization writes them.
 * @param {Uint8Array} bytes
 */
function dynamicallyQuantized(bytes) {
  const model = ModelProto.toObject(ModelProto.decode(bytes));
  const { graph } = model;
  const weights = new Map(graph.initializer.map((one) => [one.name, one]));
  const quantized = ({ input: [x, name], output: [y] }) => {
    const { dims, rawData } = weights.get(name);
    const numbers = new Float32Array(new Uint8Array(rawData).buffer);
    const scale = numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 0) / 127;
    graph.initializer.push(tensor(`${y}_weights`, 'int8', dims.map(Number), Int8Array.from(numbers, (number) => Math.round(number / scale))));
    graph.initializer.push(tensor(`${y}_of_weights`, 'float', [], Float32Array.of(scale)));
    return [
      { opType: 'DynamicQuantizeLinear', input: [x], output: [`${y}_bytes`, `${y}_scale`, `${y}_zero`] },
      { opType: 'MatMulInteger', input: [`${y}_bytes`, `${y}_weights`, `${y}_zero`], output: [`${y}_sums`] },
      { opType: 'Cast', input: [`${y}_sums`], output: [`${y}_numbers`], attribute: [{ name: 'to', i: TYPES.float.number, type: 2 }] },
      { opType: 'Mul', input: [`${y}_scale`, `${y}_of_weights`], output: [`${y}_scales`] },
      { opType: 'Mul', input: [`${y}_numbers`, `${y}_scales`], output: [y] },
    ];
  };
  graph.node = graph.node.flatMap((node) => (node.opType === 'MatMul' && weights.has(node.input[1]) ? quantized(node) : [node]));
  return ModelProto.encode(ModelProto.fromObject(model)).finish();
}

/**
 * The most probable tokens after prompts, as onnxruntime-node gives them in a process of its own: jest's arrays are not those that it
 * takes.
 * @param {{kind: string, prompt: number[], count: number}[]} list
 * @returns {{id: number, logprob: number}[][]}
 */
function expected(list) {
  const script = path.join(__dirname, 'reference.js');
  return JSON.parse(execFileSync(process.execPath, [script], { input: JSON.stringify(list), maxBuffer: 1 << 28 }));
}

const KINDS = ['concat', 'unmasked', 'GroupQueryAttention', 'MultiHeadAttention', 'genai'];
/** Those whose caches have a fixed size only. */
const OF_A_SIZE = ['TensorScatter', 'DecoderMaskedMultiHeadAttention', 'shared MultiHeadAttention'];
/** Those that take several tokens only where none come before them. */
const ALONE = ['prompts alone'];
/** Those whose states cannot be gone back in. */
const WITH_STATES = ['genai with states', 'genai with windows'];

module.exports = { ALONE, HEAD, KINDS, LONGEST, OF_A_SIZE, WITH_STATES, TOKENS, decoder, dynamicallyQuantized, expected, halved, withGreatest };
