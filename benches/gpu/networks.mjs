// The networks that GPUs are measured with: the published shapes, seeded weights.
import { CountedModel } from './weights.mjs';

/** By name: what makes a network. Small ones are for trials on a device in software. */
export const NETWORKS = { resnet50, mobilenetv2, encoder, gpt2Step, decoder, products, convolutions };

function conv(model, x, { from, to, size, image, stride = 1, groups = 1, act, scale = 1 }) {
  model.flops += 2 * (image / stride) ** 2 * to * (from / groups) * size * size;
  const spread = scale * Math.sqrt(6 / ((from / groups) * size * size));
  const y = model.op('Conv', [x, model.weight([to, from / groups, size, size], spread), model.weight([to], 0.01)], {
    kernel_shape: [size, size], strides: [stride, stride], pads: Array(4).fill(size >> 1), group: groups,
  });
  if (act === 'relu6') return model.op('Clip', [y, model.number(0), model.number(6)]);
  return act === 'relu' ? model.op('Relu', [y]) : y;
}

function classes(model, x, channels) {
  const pooled = model.op('Flatten', [model.op('GlobalAveragePool', [x])]);
  model.finish('output', model.dense(pooled, channels, 1000, 1), [1, 1000]);
  return model;
}

function resnet50({ type, small = false }) {
  const model = new CountedModel(type);
  const whole = small ? 64 : 224;
  let x = conv(model, model.floats('input', [1, 3, whole, whole]), { from: 3, to: 64, size: 7, image: whole, stride: 2, act: 'relu' });
  x = model.op('MaxPool', [x], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  let [image, channels] = [whole / 4, 64];
  for (const [width, blocks, first] of [[64, 3, 1], [128, 4, 2], [256, 6, 2], [512, 3, 2]]) {
    for (let i = 0; i < (small ? 1 : blocks); i++) {
      const stride = i === 0 ? first : 1;
      const to = 4 * width;
      let y = conv(model, x, { from: channels, to: width, size: 1, image, act: 'relu' });
      y = conv(model, y, { from: width, to: width, size: 3, image, stride, act: 'relu' });
      y = conv(model, y, { from: width, to, size: 1, image: image / stride, scale: 0.3 });
      if (i === 0) x = conv(model, x, { from: channels, to, size: 1, image, stride });
      x = model.op('Relu', [model.op('Add', [x, y])]);
      [image, channels] = [image / stride, to];
    }
  }
  return classes(model, x, channels);
}

function mobilenetv2({ type, small = false }) {
  const model = new CountedModel(type);
  let image = small ? 32 : 224;
  let x = conv(model, model.floats('input', [1, 3, image, image]), { from: 3, to: 32, size: 3, image, stride: 2, act: 'relu6' });
  let channels = 32;
  image /= 2;
  for (const [factor, to, blocks, first] of [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]) {
    for (let i = 0; i < (small ? 1 : blocks); i++) {
      const stride = i === 0 && image > 1 ? first : 1;
      const wide = channels * factor;
      let y = factor === 1 ? x : conv(model, x, { from: channels, to: wide, size: 1, image, act: 'relu6' });
      y = conv(model, y, { from: wide, to: wide, size: 3, image, stride, groups: wide, act: 'relu6' });
      image /= stride;
      y = conv(model, y, { from: wide, to, size: 1, image });
      x = stride === 1 && channels === to ? model.op('Add', [x, y]) : y;
      channels = to;
    }
  }
  return classes(model, conv(model, x, { from: 320, to: 1280, size: 1, image, act: 'relu6' }), 1280);
}

function norm(model, x, width) {
  return model.op('LayerNormalization', [x, model.weight([width], 0, 1), model.weight([width], 0)], { axis: -1, epsilon: { float: 1e-5 } });
}

function gelu(model, x) {
  const erf = model.op('Erf', [model.op('Div', [x, model.number(Math.SQRT2)])]);
  return model.op('Mul', [model.op('Mul', [x, model.op('Add', [erf, model.number(1)])]), model.number(0.5)]);
}

/** Sentences of 128 tokens, of which there are `texts`: the width of MiniLM or BERT. */
function encoder({ type, layers, width, heads, words, texts, length = 128 }) {
  const model = new CountedModel(type);
  const rows = texts * length;
  const head = width / heads;
  const ids = model.input('input_ids', [texts, length], 'int64');
  const mask = model.input('attention_mask', [texts, length], 'int64');
  let x = norm(model, model.op('Add', [model.op('Gather', [model.weight([words, width], 0.04), ids]), model.weight([1, length, width], 0.04)]), width);
  const wide = model.op('Unsqueeze', [model.op('Cast', [mask], { to: type === 'float16' ? 10 : 1 }), model.longs(1, 2)]);
  const bias = model.op('Mul', [model.op('Sub', [model.number(1), wide]), model.number(-10000)]);
  const split = (value, perm) => model.op('Transpose', [model.op('Reshape', [value, model.longs(texts, length, heads, head)])], { perm });
  for (let layer = 0; layer < layers; layer++) {
    const [q, k, v] = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]].map((perm) => split(model.dense(x, width, width, rows), perm));
    model.flops += 4 * rows * length * width;
    const scores = model.op('Add', [model.op('Mul', [model.op('MatMul', [q, k]), model.number(1 / Math.sqrt(head))]), bias]);
    const mixed = model.op('Transpose', [model.op('MatMul', [model.op('Softmax', [scores], { axis: -1 }), v])], { perm: [0, 2, 1, 3] });
    const joined = model.op('Reshape', [mixed, model.longs(texts, length, width)]);
    x = norm(model, model.op('Add', [x, model.dense(joined, width, width, rows)]), width);
    const inner = gelu(model, model.dense(x, width, 4 * width, rows));
    x = norm(model, model.op('Add', [x, model.dense(inner, 4 * width, width, rows)]), width);
  }
  // As embeddings are read: one vector of a text.
  model.finish('embedding', model.op('ReduceMean', [x], { axes: [1], keepdims: 0 }), [texts, width]);
  return model;
}

/** One token of a GPT-2 behind others, whose keys and values are weights here: what a step computes, and nothing that is read back but logits. */
function gpt2Step({ type, layers, width, heads, words, past }) {
  const model = new CountedModel(type);
  const head = width / heads;
  let x = model.op('Gather', [model.weight([words, width], 0.04), model.input('id', [1, 1], 'int64')]);
  for (let layer = 0; layer < layers; layer++) {
    const y = norm(model, x, width);
    const own = () => model.op('Transpose', [model.op('Reshape', [model.dense(y, width, width, 1), model.longs(1, 1, heads, head)])], { perm: [0, 2, 1, 3] });
    const [q, k, v] = [own(), own(), own()];
    const [keys, values] = [k, v].map((one) => model.op('Concat', [model.weight([1, heads, past, head], 1), one], { axis: 2 }));
    model.flops += 4 * (past + 1) * width;
    const scores = model.op('Mul', [model.op('MatMul', [q, model.op('Transpose', [keys], { perm: [0, 1, 3, 2] })]), model.number(1 / Math.sqrt(head))]);
    const mixed = model.op('Transpose', [model.op('MatMul', [model.op('Softmax', [scores], { axis: -1 }), values])], { perm: [0, 2, 1, 3] });
    x = model.op('Add', [x, model.dense(model.op('Reshape', [mixed, model.longs(1, 1, width)]), width, width, 1)]);
    const inner = gelu(model, model.dense(norm(model, x, width), width, 4 * width, 1));
    x = model.op('Add', [x, model.dense(inner, 4 * width, width, 1)]);
  }
  model.finish('logits', model.dense(norm(model, x, width), width, words, 1, { bias: false }), [1, 1, words]);
  return model;
}

/**
 * Products in a chain, of matrices that the device makes of two vectors: what a chain takes more than a shorter one is theirs. The first row of
 * the result is the vector that came in, exactly, if its numbers are 1 and -1.
 */
function products({ type, size, chain }) {
  const model = new CountedModel(type);
  const row = model.floats('row', [1, size]);
  const column = model.floats('column', [size, 1]);
  let x = model.op('Mul', [column, row]);
  const factor = model.op('Mul', [x, model.number(1 / size)]);
  for (let i = 0; i < chain; i++) x = model.op('MatMul', [x, factor]);
  model.flops = chain * 2 * size ** 3;
  model.finish('output', model.op('Slice', [x, model.longs(0), model.longs(1), model.longs(0)]), [1, size]);
  return model;
}

/** Convolutions in a chain, as `products`. */
function convolutions({ type, channels, image, size, groups = 1, batch = 1, chain }) {
  const model = new CountedModel(type);
  let x = model.op('Mul', [model.floats('row', [batch, channels, 1, image]), model.floats('column', [1, 1, image, 1])]);
  for (let i = 0; i < chain; i++) x = conv(model, x, { from: channels, to: channels, size, image, groups, act: 'relu' });
  model.flops *= batch;
  model.finish('output', model.op('GlobalAveragePool', [x]), [batch, channels, 1, 1]);
  return model;
}

/** A decoder with grouped queries as exporters write it, whose logits are those of the last token. `weights` are 4 bits or float16. */
function decoder({ weights, layers, width, heads, groups, inside, words, longest = 4096 }) {
  const type = weights === 'float16' ? 'float16' : 'float32';
  const model = new CountedModel(type);
  const head = width / heads;
  const inner = groups * head;
  const product = weights === 'q4' ? (x, from, to) => model.quantized(x, from, to, 1) : (x, from, to) => model.dense(x, from, to, 1, { bias: false });
  const ids = model.input('input_ids', [1, 'sequence_length'], 'int64');
  const mask = model.input('attention_mask', [1, 'total_sequence_length'], 'int64');
  const last = model.op('Sub', [model.op('ReduceSum', [mask, model.longs(1)], { keepdims: 1 }), model.longs(1)]);
  const lengths = model.op('Cast', [last], { to: 6 });
  const index = model.constant('index', [], BigInt64Array.of(1n));
  const total = model.op('Cast', [model.op('Gather', [model.op('Shape', [mask]), index], { axis: 0 })], { to: 6 });
  const [cos, sin] = tables(model, longest, head);
  let x = model.op('Gather', [model.weight([words, width], 1), ids]);
  const scale = () => model.weight([width], 0.1, 1);
  let hidden = model.op('SimplifiedLayerNormalization', [x, scale()], { axis: -1, epsilon: { float: 1e-5 } });
  for (let layer = 0; layer < layers; layer++) {
    const [q, k, v] = [width, inner, inner].map((to) => product(hidden, width, to));
    const [past, present] = ['past_key_values', 'present'].map((when) => ['key', 'value'].map((what) => `${when}.${layer}.${what}`));
    past.forEach((name) => model.input(name, [1, groups, 'past_sequence_length', head], type));
    const attention = model.contributed('GroupQueryAttention', [q, k, v, ...past, lengths, total, cos, sin], [`a${layer}`, ...present], {
      num_heads: heads, kv_num_heads: groups, do_rotary: 1, rotary_interleaved: 0, scale: { float: 1 / Math.sqrt(head) },
    });
    present.forEach((name) => model.declareOutput(name, [1, groups, 'total_sequence_length', head], type));
    const epsilon = { epsilon: { float: 1e-5 } };
    const outward = product(attention, width, width);
    const before = model.contributed('SkipSimplifiedLayerNormalization', [x, outward, scale()], [`h${layer}`, '', '', `x${layer}`], epsilon);
    const gate = product(before, width, inside);
    const up = product(before, width, inside);
    const activated = model.op('Mul', [model.op('Mul', [gate, model.op('Sigmoid', [gate])]), up]);
    const down = product(activated, inside, width);
    hidden = model.contributed('SkipSimplifiedLayerNormalization', [`x${layer}`, down, scale()], [`y${layer}`, '', '', `z${layer}`], epsilon);
    x = `z${layer}`;
  }
  const ends = ['-1', '9223372036854775807', '1'].map((text, i) => model.constant(`end${i}`, [1], BigInt64Array.of(BigInt(text))));
  const final = model.op('Slice', [hidden, ends[0], ends[1], ends[2]]);
  const logits = product(final, width, words);
  model.finish('logits', logits, [1, 1, words]);
  return model;
}

/** Cosines and sines of positions, as the rotation of pairs wants them. */
function tables(model, longest, head) {
  const pairs = head / 2;
  return [Math.cos, Math.sin].map((of) => {
    const data = Float32Array.from({ length: longest * pairs }, (_, i) => of(Math.floor(i / pairs) / 10000 ** ((2 * (i % pairs)) / head)));
    return model.table([longest, pairs], data);
  });
}
