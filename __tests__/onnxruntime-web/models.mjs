// Small ONNX models with random weights, one for each kind of network that people run.
import { OnnxModel } from '../../benches/onnx/model.mjs';

/** Numbers in [-1, 1), the same for the same seed (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

const product = (shape) => shape.reduce((a, b) => a * b, 1);

/** What the models share: constants that are drawn, and inputs. */
class Drawn extends OnnxModel {
  #random;
  #count = 0;

  constructor(seed) {
    super();
    this.#random = generator(seed);
  }

  draw(shape, scale = 1) {
    return Float32Array.from({ length: product(shape) }, () => this.#random() * scale);
  }

  integers(shape, below) {
    return Array.from({ length: product(shape) }, () => Math.floor((this.#random() + 1) * 0.5 * below));
  }

  /** A constant of an array that is given. */
  given(shape, data) {
    return this.constant(`constant_${this.#count++}`, shape, data);
  }

  scalar(value) {
    return this.given([], Float32Array.of(value));
  }

  list(...values) {
    return this.given([values.length], BigInt64Array.from(values, BigInt));
  }

  weights(shape, scale = 0.5) {
    return this.given(shape, this.draw(shape, scale));
  }

  positive(shape) {
    return this.given(shape, this.draw(shape, 0.5).map((x) => x + 1));
  }
}

/** Strided, grouped and residual convolutions with normalization, of a batch size that is open until the session. */
function convolutional(seed) {
  const model = new Drawn(seed);
  const image = model.input('image', ['batch', 3, 16, 16]);
  const normalized = (x) =>
    model.operator('BatchNormalization', [x, model.positive([8]), model.weights([8]), model.weights([8]), model.positive([8])], {
      epsilon: { float: 1e-3 },
    });
  const first = model.operator('Conv', [image, model.weights([8, 3, 3, 3]), model.weights([8])], {
    kernel_shape: [3, 3],
    strides: [2, 2],
    pads: [1, 1, 1, 1],
  });
  const active = model.operator('Relu', [normalized(first)]);
  const depthwise = model.operator('Conv', [active, model.weights([8, 1, 3, 3])], { kernel_shape: [3, 3], pads: [1, 1, 1, 1], group: 8 });
  const clipped = model.operator('Clip', [depthwise, model.scalar(0), model.scalar(6)]);
  const pointwise = model.operator('Conv', [clipped, model.weights([8, 8, 1, 1]), model.weights([8])], { kernel_shape: [1, 1] });
  const residual = model.operator('Add', [pointwise, active]);
  const pooled = model.operator('MaxPool', [residual], { kernel_shape: [2, 2], strides: [2, 2] });
  const wide = model.operator('ConvTranspose', [pooled, model.weights([8, 4, 2, 2]), model.weights([4])], { kernel_shape: [2, 2], strides: [2, 2] });
  const joined = model.operator('Concat', [wide, residual], { axis: 1 });
  const mean = model.operator('GlobalAveragePool', [model.operator('LeakyRelu', [joined], { alpha: { float: 0.1 } })]);
  const flat = model.operator('Flatten', [mean], { axis: 1 });
  const logits = model.operator('Gemm', [flat, model.weights([10, 12]), model.weights([10])], { transB: 1 });
  model.output('classes', model.operator('Softmax', [logits], { axis: 1 }), ['batch', 10]);
  const inputs = { image: { type: 'float32', shape: [2, 3, 16, 16], data: model.draw([2, 3, 16, 16]) } };
  return { model: model.encode(), inputs, freeDimensionOverrides: { batch: 2 } };
}

/** An encoder block with the embedding before it: ids and a mask of int64, attention with two heads, Gelu from Erf. */
function transformer(seed) {
  const [tokens, width, heads, words] = [6, 16, 2, 50];
  const model = new Drawn(seed);
  const ids = model.input('input_ids', [1, 'sequence'], 'int64');
  const mask = model.input('attention_mask', [1, 'sequence'], 'int64');
  const op = (name, inputs, attributes) => model.operator(name, inputs, attributes);
  const normalized = (x) => op('LayerNormalization', [x, model.positive([width]), model.weights([width])], { axis: -1, epsilon: { float: 1e-5 } });
  const dense = (x, from, to) => op('Add', [op('MatMul', [x, model.weights([from, to], 0.3)]), model.weights([to])]);
  const split = (x, permutation) => {
    const shape = model.list(0, -1, heads, width / heads);
    return op('Transpose', [op('Reshape', [x, shape])], { perm: permutation });
  };

  const embedded = op('Gather', [model.weights([words, width], 1), ids]);
  const x = normalized(op('Add', [embedded, model.weights([1, tokens, width])]));

  // 0 where the mask is 1, and a large negative number where it is 0.
  const open = op('Cast', [op('Unsqueeze', [mask, model.list(1, 2)])], { to: 1 });
  const bias = op('Mul', [op('Sub', [model.scalar(1), open]), model.scalar(-10000)]);
  const query = split(dense(x, width, width), [0, 2, 1, 3]);
  const key = split(dense(x, width, width), [0, 2, 3, 1]);
  const value = split(dense(x, width, width), [0, 2, 1, 3]);
  const scores = op('Div', [op('MatMul', [query, key]), model.scalar(Math.sqrt(width / heads))]);
  const attention = op('Softmax', [op('Add', [scores, bias])], { axis: -1 });
  const mixed = op('Transpose', [op('MatMul', [attention, value])], { perm: [0, 2, 1, 3] });
  const joined = dense(op('Reshape', [mixed, model.list(0, -1, width)]), width, width);
  const y = normalized(op('Add', [x, joined]));

  const hidden = dense(y, width, 4 * width);
  const erf = op('Erf', [op('Div', [hidden, model.scalar(Math.SQRT2)])]);
  const gelu = op('Mul', [op('Mul', [hidden, op('Add', [erf, model.scalar(1)])]), model.scalar(0.5)]);
  const z = normalized(op('Add', [y, dense(gelu, 4 * width, width)]));
  model.output('hidden', z, [1, 'sequence', width]);
  model.output('mean', op('ReduceMean', [z], { axes: [1], keepdims: 0 }), [1, width]);
  const inputs = {
    input_ids: { type: 'int64', shape: [1, tokens], data: BigInt64Array.from(model.integers([tokens], words), BigInt) },
    attention_mask: { type: 'int64', shape: [1, tokens], data: BigInt64Array.from([1, 1, 1, 1, 0, 0], BigInt) },
  };
  return { model: model.encode(), inputs, freeDimensionOverrides: { sequence: tokens } };
}

/** Quantized in the QDQ form: uint8 activations, int8 weights with a scale for each channel, int32 bias. */
function quantized(seed) {
  const model = new Drawn(seed);
  const image = model.input('image', [1, 2, 8, 8]);
  const bytes = (shape) => model.given(shape, Int8Array.from(model.integers(shape, 255), (x) => x - 127));
  const scales = (count) => model.given([count], model.draw([count], 0.002).map((x) => x + 0.005));
  const requantized = (x, scale, zero) => {
    const parameters = [model.scalar(scale), model.given([], Uint8Array.of(zero))];
    return model.operator('DequantizeLinear', [model.operator('QuantizeLinear', [x, ...parameters]), ...parameters]);
  };
  const filter = (shape) =>
    model.operator('DequantizeLinear', [bytes(shape), scales(shape[0]), model.given([shape[0]], new Int8Array(shape[0]))], { axis: 0 });
  const bias = model.operator('DequantizeLinear', [model.given([4], Int32Array.from(model.integers([4], 400), (x) => x - 200)), scales(4)], {
    axis: 0,
  });
  const input = requantized(image, 1 / 127, 128);
  const features = model.operator('Conv', [input, filter([4, 2, 3, 3]), bias], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] });
  const active = requantized(model.operator('Relu', [features]), 0.02, 0);
  const pooled = requantized(model.operator('AveragePool', [active], { kernel_shape: [2, 2], strides: [2, 2] }), 0.02, 0);
  const flat = model.operator('Reshape', [pooled, model.list(1, -1)]);
  const dense = model.operator('Gemm', [flat, filter([5, 64])], { transB: 1 });
  model.output('scores', requantized(dense, 0.05, 100), [1, 5]);
  const inputs = { image: { type: 'float32', shape: [1, 2, 8, 8], data: model.draw([1, 2, 8, 8]) } };
  // Where the two engines round a value that lies between two steps differently, the result is one step of the output away.
  return { model: model.encode(), inputs, tolerance: 0.0501 };
}

/** Both directions of an LSTM over a sequence, with initial states, and all three outputs. */
function lstm(seed) {
  const [steps, batch, width, hidden] = [5, 2, 4, 3];
  const model = new Drawn(seed);
  const x = model.input('x', [steps, batch, width]);
  const [all, last, cell] = model.operators(
    'LSTM',
    [
      x,
      model.weights([2, 4 * hidden, width]),
      model.weights([2, 4 * hidden, hidden]),
      model.weights([2, 8 * hidden]),
      '',
      model.weights([2, batch, hidden]),
      model.weights([2, batch, hidden]),
    ],
    { hidden_size: hidden, direction: 'bidirectional' },
    3,
  );
  model.output('all', all, [steps, 2, batch, hidden]);
  model.output('last', last, [2, batch, hidden]);
  model.output('cell', cell, [2, batch, hidden]);
  const inputs = { x: { type: 'float32', shape: [steps, batch, width], data: model.draw([steps, batch, width]) } };
  return { model: model.encode(), inputs };
}

export const models = { convolutional, transformer, quantized, lstm };
