'use strict';

// Small encoder-decoders with seeded weights, as Optimum exports them: an encoder, a merged decoder with the branches of an If, and the same as two
// decoders. Marian's and BART's steps have no mask that keeps several tokens apart, because the exporter has tried them with one.

const { floats, longs, tensor, writeModel } = require('../onnx/write.js');
const { seededNumbers } = require('../seeded-numbers.js');

const TOKENS = 48;
const WIDTH = 32;
const HEADS = 2;
const HEAD = WIDTH / HEADS;
const LAYERS = 2;
const LONGEST = 300;
const FEATURES = 8;
const LEAST = -3.4028234663852886e38;

const KINDS = ['marian', 't5', 'whisper'];

/** The weights of a model, by their names: both branches have the same. */
class Weights {
  initializers = [];
  #names = new Set();

  get(name, shape, scale = 0.7) {
    if (!this.#names.has(name)) {
      this.#names.add(name);
      const seed = [...name].reduce((sum, letter) => (31 * sum + letter.charCodeAt(0)) % 65521, 7);
      this.initializers.push(tensor(name, 'float', shape, seededNumbers(shape.reduce((a, b) => a * b, 1), scale, seed)));
    }
    return name;
  }
}

/** The nodes of a graph. */
class Graph {
  nodes = [];

  constructor(weights) {
    this.weights = weights;
  }

  add(op, inputs, attributes = {}, outputs = [`v${this.nodes.length}`]) {
    this.nodes.push({ op, inputs, outputs, attributes });
    return outputs[0];
  }

  long(...list) {
    return this.add('Constant', [], { value: { tensor: tensor('', 'int64', [list.length], longs(...list)) } });
  }

  scalar(x) {
    return this.add('Constant', [], { value: { tensor: tensor('', 'int64', [], longs(x)) } });
  }

  float(x) {
    return this.add('Constant', [], { value: { tensor: tensor('', 'float', [], floats(x)) } });
  }

  size(of, axis) {
    return this.add('Gather', [this.add('Shape', [of]), this.scalar(axis)], { axis: 0 });
  }

  unsqueeze(x, ...axes) {
    return this.add('Unsqueeze', [x, this.long(...axes)]);
  }

  product(x, name, from, to) {
    return this.add('Add', [this.add('MatMul', [x, this.weights.get(`${name}.weight`, [from, to])]), this.weights.get(`${name}.bias`, [to], 0.2)]);
  }

  normal(x, name) {
    const scale = this.weights.get(`${name}.scale`, [WIDTH], 2);
    return this.add('LayerNormalization', [x, scale, this.weights.get(`${name}.shift`, [WIDTH], 0.2)], { axis: -1 });
  }

  heads(x) {
    const shape = this.add('Concat', [this.unsqueeze(this.size(x, 0), 0), this.long(-1), this.long(HEADS), this.long(HEAD)], { axis: 0 });
    return this.add('Transpose', [this.add('Reshape', [x, shape])], { perm: [0, 2, 1, 3] });
  }

  /** Attention, with something added to its scores. */
  attend(q, keys, values, biases) {
    let scores = this.add('Mul', [this.add('MatMul', [q, this.add('Transpose', [keys], { perm: [0, 1, 3, 2] })]), this.float(1 / Math.sqrt(HEAD))]);
    for (const bias of biases) scores = this.add('Add', [scores, bias]);
    const result = this.add('MatMul', [this.add('Softmax', [scores], { axis: -1 }), values]);
    return this.add('Reshape', [this.add('Transpose', [result], { perm: [0, 2, 1, 3] }), this.long(0, 0, WIDTH)]);
  }

  /** What hides places whose mask is 0, as BART's exporter writes it. */
  hiding(mask, ids) {
    const wide = this.unsqueeze(mask, 1, 2);
    const size = (value, axis) => this.unsqueeze(this.size(value, axis), 0);
    const shape = this.add('Concat', [size(mask, 0), this.long(1), size(ids, 1), size(mask, 1)], { axis: 0 });
    const inverse = this.add('Sub', [this.float(1), this.add('Cast', [this.add('Expand', [wide, shape])], { to: 1 })]);
    return this.add('Where', [this.add('Cast', [inverse], { to: 9 }), this.float(LEAST), inverse]);
  }
}

/** A branch: the first step, which computes the caches of the encoder, or a later one. */
function branch(kind, isFirst, weights) {
  const g = new Graph(weights);
  const ids = 'input_ids';
  const length = g.size(ids, 1);
  const past = isFirst ? g.scalar(0) : g.size('past_key_values.0.decoder.key', 2);
  const total = g.add('Add', [past, length]);
  const places = g.add('Range', [past, total, g.scalar(1)]);
  const keys = g.add('Range', [g.scalar(0), total, g.scalar(1)]);
  const column = g.unsqueeze(places, 1);
  let x = g.add('Gather', [g.weights.get('shared', [TOKENS, WIDTH], 3), ids], { axis: 0 });
  const biases = [];
  if (kind === 't5') {
    // The distances of keys, up to 7, have numbers of their own.
    const distance = g.add('Clip', [g.add('Sub', [column, keys]), g.scalar(0), g.scalar(7)]);
    const table = g.add('Gather', [g.weights.get('relative', [8, HEADS], 4), distance], { axis: 0 });
    biases.push(g.unsqueeze(g.add('Transpose', [table], { perm: [2, 0, 1] }), 0));
  } else {
    const table = g.weights.get('positions', [LONGEST + 2, WIDTH], 2);
    x = g.add('Add', [x, g.add('Gather', [table, g.add('Add', [g.unsqueeze(places, 0), g.scalar(2)])], { axis: 0 })]);
  }
  if (isFirst || kind !== 'marian') {
    const later = g.add('Cast', [g.add('Greater', [keys, column])], { to: 1 });
    biases.push(g.unsqueeze(g.add('Mul', [later, g.float(LEAST)]), 0, 1));
  }
  const crossBiases = kind === 'whisper' ? [] : [g.hiding('encoder_attention_mask', ids)];
  const outputs = [];
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = (what) => `layers.${layer}.${what}`;
    let normal = g.normal(x, name('self'));
    const own = ['key', 'value'].map((what) => {
      const made = g.heads(g.product(normal, name(`self.${what}`), WIDTH, WIDTH));
      const present = `present.${layer}.decoder.${what}`;
      outputs.push(present);
      return isFirst ? g.add('Identity', [made], {}, [present]) : g.add('Concat', [`past_key_values.${layer}.decoder.${what}`, made], { axis: 2 }, [present]);
    });
    const query = (what) => g.heads(g.product(normal, name(`${what}.query`), WIDTH, WIDTH));
    x = g.add('Add', [x, g.product(g.attend(query('self'), ...own, biases), name('self.out'), WIDTH, WIDTH)]);
    normal = g.normal(x, name('cross'));
    const cross = ['key', 'value'].map((what) => {
      const present = `present.${layer}.encoder.${what}`;
      outputs.push(present);
      if (!isFirst) return `past_key_values.${layer}.encoder.${what}`;
      const made = g.heads(g.product('encoder_hidden_states', name(`cross.${what}`), WIDTH, WIDTH));
      return g.add('Identity', [made], {}, [present]);
    });
    x = g.add('Add', [x, g.product(g.attend(query('cross'), ...cross, crossBiases), name('cross.out'), WIDTH, WIDTH)]);
    const wide = g.add('Relu', [g.product(g.normal(x, name('last')), name('up'), WIDTH, 2 * WIDTH)]);
    x = g.add('Add', [x, g.product(wide, name('down'), 2 * WIDTH, WIDTH)]);
  }
  g.add('MatMul', [g.normal(x, 'last'), g.weights.get('head', [WIDTH, TOKENS], 1.5)], {}, ['logits']);
  return { nodes: g.nodes, outputs: ['logits', ...outputs] };
}

const named = (outputs) => outputs.map((name) => ({ name }));

/** What decoders take. `length` is that of the tokens. */
function inputsOf(kind, { length = 'decoder_sequence_length', states = true, pasts = true }) {
  const inputs = [];
  if (kind !== 'whisper') inputs.push({ name: 'encoder_attention_mask', type: 'int64', shape: ['batch_size', 'encoder_sequence_length'] });
  inputs.push({ name: 'input_ids', type: 'int64', shape: ['batch_size', length] });
  if (states) inputs.push({ name: 'encoder_hidden_states', type: 'float', shape: ['batch_size', kind === 'whisper' ? 'encoder_sequence_length / 2' : 'encoder_sequence_length', WIDTH] });
  for (let layer = 0; pasts && layer < LAYERS; layer++) {
    for (const [side, axis] of [['decoder', 'past_decoder_sequence_length'], ['encoder', 'encoder_sequence_length_out']]) {
      for (const what of ['key', 'value']) inputs.push({ name: `past_key_values.${layer}.${side}.${what}`, type: 'float', shape: ['batch_size', HEADS, axis, HEAD] });
    }
  }
  return inputs;
}

/** One file with both branches. The later one has something without elements in the place of the encoder's caches. */
function merged(kind) {
  const weights = new Weights();
  const [first, later] = [branch(kind, true, weights), branch(kind, false, weights)];
  for (const name of later.outputs.filter((output) => output.includes('.encoder.'))) {
    later.nodes.push({ op: 'Constant', inputs: [], outputs: [name], attributes: { value: { tensor: tensor('', 'float', [0, HEADS, 1, HEAD], floats()) } } });
  }
  const graph = ({ nodes, outputs }) => ({ graph: { inputs: [], outputs: named(outputs), nodes } });
  const choice = { op: 'If', inputs: ['use_cache_branch'], outputs: first.outputs, attributes: { then_branch: graph(later), else_branch: graph(first) } };
  const inputs = [...inputsOf(kind, {}), { name: 'use_cache_branch', type: 'bool', shape: [1] }];
  return writeModel({ opset: 17, inputs, outputs: named(first.outputs), nodes: [choice], initializers: weights.initializers });
}

/** `decoder_model.onnx`. */
function withoutPast(kind) {
  const weights = new Weights();
  const { nodes, outputs } = branch(kind, true, weights);
  return writeModel({ opset: 17, inputs: inputsOf(kind, { pasts: false }), outputs: named(outputs), nodes, initializers: weights.initializers });
}

/** `decoder_with_past_model.onnx`. Some exporters fix its number of tokens, and others leave it open. */
function withPast(kind, length = 1) {
  const weights = new Weights();
  const { nodes, outputs } = branch(kind, false, weights);
  const own = outputs.filter((name) => !name.includes('.encoder.'));
  return writeModel({ opset: 17, inputs: inputsOf(kind, { length, states: false }), outputs: named(own), nodes, initializers: weights.initializers });
}

function encoder(kind) {
  const g = new Graph(new Weights());
  let inputs;
  let x;
  if (kind === 'whisper') {
    inputs = [{ name: 'input_features', type: 'float', shape: ['batch_size', FEATURES, 'feature_length'] }];
    x = g.product(g.add('Transpose', ['input_features'], { perm: [0, 2, 1] }), 'in', FEATURES, WIDTH);
  } else {
    inputs = ['input_ids', 'attention_mask'].map((name) => ({ name, type: 'int64', shape: ['batch_size', 'encoder_sequence_length'] }));
    x = g.add('Gather', [g.weights.get('shared', [TOKENS, WIDTH], 3), 'input_ids'], { axis: 0 });
  }
  const [q, k, v] = ['query', 'key', 'value'].map((what) => g.heads(g.product(x, what, WIDTH, WIDTH)));
  const biases = kind === 'whisper' ? [] : [g.hiding('attention_mask', 'input_ids')];
  x = g.add('Add', [x, g.product(g.attend(q, k, v, biases), 'out', WIDTH, WIDTH)]);
  g.add('Identity', [g.normal(x, 'last')], {}, ['last_hidden_state']);
  return writeModel({ opset: 17, inputs, outputs: named(['last_hidden_state']), nodes: g.nodes, initializers: g.weights.initializers });
}

module.exports = { FEATURES, KINDS, TOKENS, WIDTH, encoder, merged, withPast, withoutPast };
