'use strict';

// Small encoders of texts with seeded weights, as exporters write them: embeddings, layers of attention, and something that is made of the
// tokens at the end.

const { tensor, writeModel } = require('./write.js');

const VOCABULARY = 40;
const PLACES = 80;
const WIDTH = 8;
const HEADS = 2;

/** Numbers from -1 to 1 that depend on a seed. */
function* numbers(seed) {
  let state = seed >>> 0;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 31 - 1;
  }
}

const halfBits = (number) => {
  const [bits] = new Uint32Array(Float32Array.of(number).buffer);
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent >= 31) return ((bits >>> 16) & 0x8000) | (Number.isFinite(number) ? 0x7bff : 0x7c00);
  if (exponent <= 0) return (bits >>> 16) & 0x8000;
  return ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >>> 13) & 1023);
};

/** Nodes and weights under construction. */
class Sketch {
  nodes = [];
  initializers = [];
  #count = 0;
  #random;

  constructor(type, seed) {
    this.type = type;
    this.#random = numbers(seed);
  }

  /** The output of a node. */
  node(op, inputs, attributes = {}, domain = '', count = 1) {
    const outputs = Array.from({ length: count }, () => `v${this.#count++}`);
    this.nodes.push({ op, domain, name: `${op} ${this.nodes.length}`, inputs, outputs, attributes });
    return count === 1 ? outputs[0] : outputs;
  }

  /** A constant of floats. */
  floats(shape, values) {
    const name = `c${this.#count++}`;
    const array = this.type === 'float16' ? Uint16Array.from(values, halfBits) : Float32Array.from(values);
    this.initializers.push(tensor(name, this.type, shape, array));
    return name;
  }

  integers(shape, values, type = 'int64') {
    const name = `c${this.#count++}`;
    const array = type === 'int64' ? BigInt64Array.from(values, BigInt) : Int32Array.from(values);
    this.initializers.push(tensor(name, type, shape, array));
    return name;
  }

  weights(...shape) {
    const scale = shape.length > 1 ? 1 / Math.sqrt(shape[0]) : 1;
    return this.floats(shape, Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * scale * this.#random.next().value));
  }

  unsqueeze(input, ...axes) {
    return this.node('Unsqueeze', [input, this.integers([axes.length], axes)]);
  }

  cast(input) {
    return this.node('Cast', [input], { to: this.type === 'float16' ? 10 : 1 });
  }
}

/** 1 - mask, times a low number: added to scores. */
function added(sketch, lowest) {
  const mask = sketch.cast(sketch.unsqueeze('attention_mask', 1, 2));
  return sketch.node('Mul', [sketch.node('Sub', [sketch.floats([], [1]), mask]), sketch.floats([], [lowest])]);
}

/** For each place of the queries. */
function expanded(sketch, lowest) {
  const length = sketch.node('Shape', ['input_ids'], { start: 1, end: 2 });
  const batch = sketch.node('Shape', ['input_ids'], { start: 0, end: 1 });
  const shape = sketch.node('Concat', [batch, sketch.integers([1], [1]), length, length], { axis: 0 });
  const all = sketch.node('Expand', [sketch.unsqueeze('attention_mask', 1, 2), shape]);
  const is = sketch.node('Cast', [all], { to: 9 });
  return sketch.node('Where', [is, sketch.floats([], [0]), sketch.floats([], [lowest])]);
}

/** What is added to scores, by the name of a way to write it; nothing where there is no mask. */
const MASKS = {
  minimum: (sketch) => added(sketch, sketch.type === 'float16' ? -65504 : -3.4028234663852886e38),
  'ten thousand': (sketch) => added(sketch, -10000),
  weak: (sketch) => added(sketch, -3),
  expanded: (sketch) => expanded(sketch, sketch.type === 'float16' ? -65504 : -3.4028234663852886e38),
  infinite: (sketch) => expanded(sketch, -Infinity),
  none: () => undefined,
  'named only': (sketch) => sketch.node('Mul', [added(sketch, -10000), sketch.floats([], [0])]),
};

function normalized(sketch, x, isWhole) {
  const [scale, bias] = [sketch.weights(WIDTH), sketch.weights(WIDTH)];
  if (isWhole) return sketch.node('LayerNormalization', [x, scale, bias], { axis: -1 });
  const mean = sketch.node('ReduceMean', [x], { axes: [-1] });
  const apart = sketch.node('Sub', [x, mean]);
  const variance = sketch.node('ReduceMean', [sketch.node('Pow', [apart, sketch.floats([], [2])])], { axes: [-1] });
  const deviation = sketch.node('Sqrt', [sketch.node('Add', [variance, sketch.floats([], [sketch.type === 'float16' ? 1e-4 : 1e-12])])]);
  return sketch.node('Add', [sketch.node('Mul', [sketch.node('Div', [apart, deviation]), scale]), bias]);
}

function heads(sketch, x, last = [0, 2, 1, 3]) {
  const all = sketch.node('Add', [sketch.node('MatMul', [x, sketch.weights(WIDTH, WIDTH)]), sketch.weights(WIDTH)]);
  const apart = sketch.node('Reshape', [all, sketch.integers([4], [0, 0, HEADS, WIDTH / HEADS])]);
  return sketch.node('Transpose', [apart], { perm: last });
}

function layer(sketch, x, bias, isWhole) {
  const [q, k, v] = [heads(sketch, x), heads(sketch, x, [0, 2, 3, 1]), heads(sketch, x)];
  const products = sketch.node('MatMul', [q, k]);
  const scaled = sketch.node('Div', [products, sketch.floats([], [Math.sqrt(WIDTH / HEADS)])]);
  const scores = bias === undefined ? scaled : sketch.node('Add', [scaled, bias]);
  const shares = sketch.node('Softmax', [scores], { axis: -1 });
  const together = sketch.node('Transpose', [sketch.node('MatMul', [shares, v])], { perm: [0, 2, 1, 3] });
  const flat = sketch.node('Reshape', [together, sketch.integers([3], [0, 0, WIDTH])]);
  const out = normalized(sketch, sketch.node('Add', [sketch.node('MatMul', [flat, sketch.weights(WIDTH, WIDTH)]), x]), isWhole);
  const wide = sketch.node('MatMul', [out, sketch.weights(WIDTH, 2 * WIDTH)]);
  // Gelu, written out.
  const erf = sketch.node('Erf', [sketch.node('Div', [wide, sketch.floats([], [Math.SQRT2])])]);
  const gelu = sketch.node('Mul', [sketch.node('Mul', [wide, sketch.node('Add', [erf, sketch.floats([], [1])])]), sketch.floats([], [0.5])]);
  return normalized(sketch, sketch.node('Add', [sketch.node('MatMul', [gelu, sketch.weights(2 * WIDTH, WIDTH)]), out]), isWhole);
}

/** The same by onnxruntime's operators. */
function fusedLayer(sketch, x, mask) {
  const weights = sketch.weights(WIDTH, 3 * WIDTH);
  const attention = sketch.node('Attention', [x, weights, sketch.weights(3 * WIDTH), mask], { num_heads: HEADS }, 'com.microsoft');
  const attributes = { epsilon: { float: 1e-12 } };
  const sum = sketch.node('SkipLayerNormalization', [attention, x, sketch.weights(WIDTH), sketch.weights(WIDTH)], attributes, 'com.microsoft');
  const gelu = sketch.node('FastGelu', [sketch.node('MatMul', [sum, sketch.weights(WIDTH, WIDTH)])], {}, 'com.microsoft');
  return sketch.node('SkipLayerNormalization', [gelu, sum, sketch.weights(WIDTH), sketch.weights(WIDTH)], attributes, 'com.microsoft');
}

function maskedMean(sketch, x) {
  const mask = sketch.unsqueeze('attention_mask', -1);
  const wide = sketch.cast(sketch.node('Expand', [mask, sketch.node('Shape', [x])]));
  const sum = sketch.node('ReduceSum', [sketch.node('Mul', [x, wide]), sketch.integers([1], [1])], { keepdims: 0 });
  const count = sketch.node('Clip', [sketch.node('ReduceSum', [wide, sketch.integers([1], [1])], { keepdims: 0 }), sketch.floats([], [sketch.type === 'float16' ? 1e-4 : 1e-9])]);
  const mean = sketch.node('Div', [sum, count]);
  const norm = sketch.node('Clip', [sketch.node('ReduceL2', [mean], { axes: [1] }), sketch.floats([], [sketch.type === 'float16' ? 1e-4 : 1e-12])]);
  return sketch.node('Div', [mean, sketch.node('Expand', [norm, sketch.node('Shape', [mean])])]);
}

/** What is made of the tokens. */
const ENDS = {
  tokens: (_sketch, x) => x,
  first: (sketch, x) => {
    const first = sketch.node('Gather', [x, sketch.integers([], [0])], { axis: 1 });
    return sketch.node('Tanh', [sketch.node('Gemm', [first, sketch.weights(WIDTH, WIDTH), sketch.weights(WIDTH)])]);
  },
  mean: maskedMean,
  'plain mean': (sketch, x) => sketch.node('ReduceMean', [x], { axes: [1], keepdims: 0 }),
  greatest: (sketch, x) => sketch.node('ReduceMax', [x], { axes: [1], keepdims: 0 }),
  last: (sketch, x) => sketch.node('Gather', [x, sketch.integers([], [-1])], { axis: 1 }),
  reversed: (sketch, x) => {
    const ends = [[-1], [-1000], [1], [-1]].map((values) => sketch.integers([1], values));
    return sketch.node('Slice', [x, ...ends]);
  },
  convolution: (sketch, x) => {
    const turned = sketch.node('Transpose', [x], { perm: [0, 2, 1] });
    const found = sketch.node('Conv', [turned, sketch.weights(WIDTH, WIDTH, 3)], { pads: [1, 1] });
    return sketch.node('Transpose', [found], { perm: [0, 2, 1] });
  },
  'normalized text': (sketch, x) => {
    const turned = sketch.node('Transpose', [x], { perm: [0, 2, 1] });
    const mean = sketch.node('ReduceMean', [turned], { axes: [-1] });
    return sketch.node('Sub', [turned, mean]);
  },
  'places from the end': (sketch, x) => {
    const length = sketch.node('Squeeze', [sketch.node('Shape', ['input_ids'], { start: 1, end: 2 })]);
    const [zero, one] = [sketch.integers([], [0]), sketch.integers([], [1])];
    const left = sketch.node('Sub', [length, sketch.node('Range', [zero, length, one])]);
    return sketch.node('Add', [x, sketch.cast(sketch.unsqueeze(left, 0, 2))]);
  },
};

/**
 * An encoder with `input_ids`, `attention_mask` and, with `types`, `token_type_ids`, all of [batch, sequence], and the output `y`.
 * @param {{mask?: string, end?: string, layers?: number, type?: 'float' | 'float16', ids?: 'int64' | 'int32', types?: boolean, isWhole?: boolean,
 *   isFused?: boolean, places?: 'table' | 'counted', seed?: number}} [options]
 * @returns {Uint8Array}
 */
function encoder({ mask = 'minimum', end = 'tokens', layers = 2, type = 'float', ids = 'int64', types = false, isWhole = false, isFused = false, places = 'table', seed = 1 } = {}) {
  const sketch = new Sketch(type, seed);
  let x = sketch.node('Gather', [sketch.weights(VOCABULARY, WIDTH), 'input_ids']);
  if (types) x = sketch.node('Add', [x, sketch.node('Gather', [sketch.weights(2, WIDTH), 'token_type_ids'])]);
  const table = sketch.weights(PLACES, WIDTH);
  if (places === 'table') {
    const all = sketch.integers([1, PLACES], Array.from({ length: PLACES }, (_, i) => i));
    const length = sketch.node('Shape', ['input_ids'], { start: 1, end: 2 });
    const positions = sketch.node('Slice', [all, sketch.integers([1], [0]), length, sketch.integers([1], [1])]);
    x = sketch.node('Add', [x, sketch.node('Gather', [table, positions])]);
  } else {
    // As RoBERTa counts the tokens that are not padding, whose token is 1.
    const is = sketch.node('Cast', [sketch.node('Not', [sketch.node('Equal', ['input_ids', sketch.integers([], [1], ids)])])], { to: 6 });
    const count = sketch.node('Mul', [sketch.node('CumSum', [is, sketch.integers([], [1])]), is]);
    const positions = sketch.node('Add', [sketch.node('Cast', [count], { to: 7 }), sketch.integers([], [1])]);
    x = sketch.node('Add', [x, sketch.node('Gather', [table, positions])]);
  }
  x = normalized(sketch, x, isWhole);
  const bias = isFused ? undefined : MASKS[mask](sketch);
  const fusedMask = isFused ? sketch.node('Cast', ['attention_mask'], { to: 6 }) : undefined;
  for (let i = 0; i < layers; i++) x = isFused ? fusedLayer(sketch, x, fusedMask) : layer(sketch, x, bias, isWhole);
  const y = ENDS[end](sketch, x);
  sketch.nodes.push({ op: 'Identity', inputs: [y], outputs: ['y'] });
  const names = ['input_ids', 'attention_mask', ...(types ? ['token_type_ids'] : [])];
  return writeModel({
    opset: 17,
    inputs: names.map((name) => ({ name, type: ids, shape: ['batch', 'sequence'] })),
    outputs: [{ name: 'y' }],
    nodes: sketch.nodes,
    initializers: sketch.initializers,
  });
}

/**
 * Texts for it, of seeded tokens: all of one length.
 * @param {{name: string, dataType: string}[]} inputs of the model
 * @param {number} rows
 * @param {number} length
 * @param {number} seed
 * @param {(row: number, place: number) => number} [maskOf] 1 for what counts
 */
function texts(inputs, rows, length, seed, maskOf = () => 1) {
  const random = numbers(seed * 7919 + length);
  const draw = (most) => Math.floor(((random.next().value + 1) / 2) * most);
  const values = { input_ids: () => draw(VOCABULARY), attention_mask: (i) => maskOf(Math.floor(i / length), i % length), token_type_ids: () => draw(2) };
  return Object.fromEntries(
    inputs.map(({ name, dataType }) => {
      const all = Array.from({ length: rows * length }, (_, i) => values[name](i));
      return [name, { data: dataType === 'int64' ? BigInt64Array.from(all, BigInt) : Int32Array.from(all), shape: [rows, length] }];
    }),
  );
}

module.exports = { encoder, texts };
