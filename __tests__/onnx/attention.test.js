'use strict';

// Attention and rotary embeddings beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const float = (value) => ({ float: value });
const microsoft = { domain: 'com.microsoft' };
const i32 = (shape, values) => x(shape, { type: 'int32', values });

/** A cache whose first positions are filled: onnxruntime clears the others. */
const filled = (count, shape) => {
  const [, , size, width] = shape;
  const elements = shape.reduce((product, length) => product * length, 1);
  return x(shape, { values: Array.from({ length: elements }, (_, i) => (Math.floor(i / width) % size < count ? ((i * 37) % 101) / 50 - 1 : 0)) });
};

testCases([
  { op: 'MultiHeadAttention', ...microsoft, attributes: { num_heads: 2 }, inputs: [x([2, 3, 8]), x([2, 5, 8]), x([2, 5, 8])] },
  { op: 'MultiHeadAttention', ...microsoft, attributes: { num_heads: 2, scale: float(0.3) }, inputs: [x([2, 3, 8]), x([2, 5, 8]), x([2, 5, 8]), c([24])] },
  { op: 'MultiHeadAttention', ...microsoft, attributes: { num_heads: 2 }, inputs: [x([1, 3, 8]), x([1, 5, 8]), x([1, 5, 8]), null, i32([1, 5], [1, 1, 1, 0, 0])] },
  { op: 'MultiHeadAttention', ...microsoft, attributes: { num_heads: 2, unidirectional: 1 }, inputs: [x([1, 4, 8]), x([1, 4, 8]), x([1, 4, 8])] },
  // A single query sees all keys.
  ...[[1, 5], [1, 1], [3, 5], [2, 2]].map(([queries, keys]) => ({ op: 'MultiHeadAttention', ...microsoft, note: `${queries} queries and ${keys} keys`, attributes: { num_heads: 2, unidirectional: 1 }, inputs: [x([2, queries, 8]), x([2, keys, 8]), x([2, keys, 8])] })),
  { op: 'MultiHeadAttention', ...microsoft, outputs: 3, attributes: { num_heads: 2 }, inputs: [x([1, 1, 8]), x([1, 1, 8]), x([1, 1, 8]), null, null, null, x([1, 2, 3, 4]), x([1, 2, 3, 4])] },
  ...[
    ['lengths', [3], [2, 5, 0]],
    ['lengths, and where sequences begin', [11], [2, 5, 1, 0, 2, 4, 6, 0, 5, 10, 15]],
    ['keys', [3, 5], [1, 0, 1, 1, 0, 0, 1, 1, -1, 1, 2, 0, 0, 0, 1]],
    ['keys of each query', [3, 2, 5], Array.from({ length: 30 }, (_, i) => Number((i * 7) % 5 > 1))],
  ].flatMap(([note, shape, values]) => {
    const mask = i32(shape, values);
    return [
      { op: 'MultiHeadAttention', ...microsoft, note, attributes: { num_heads: 2, mask_filter_value: float(-50) }, inputs: [x([3, 2, 8]), x([3, 5, 8]), x([3, 5, 8]), null, mask] },
      { op: 'MultiHeadAttention', ...microsoft, note: `${note}, a cache`, outputs: 3, attributes: { num_heads: 2, unidirectional: 1, mask_filter_value: float(-50) }, inputs: [x([3, 2, 8]), x([3, 2, 8]), x([3, 2, 8]), null, mask, null, x([3, 2, 3, 4]), x([3, 2, 3, 4])] },
    ];
  }),
  ...[
    ['ends', [2], [3, 5]],
    ['ends and starts', [4], [3, 5, 1, 2]],
    ['ends, and where sequences begin', [8], [3, 5, 0, 5, 10, 0, 5, 10]],
    ['a mask for show', [2, 1], [0, 0]],
    ['a mask below 0', [2, 5], [1, -1, 1, 2, 0, 1, 1, 1, -2, 1]],
  ].map(([note, shape, values]) => ({ op: 'Attention', ...microsoft, note, attributes: { num_heads: 2, mask_filter_value: float(-50) }, inputs: [x([2, 5, 8]), c([8, 24]), c([24]), i32(shape, values)] })),
  // Without beams onnxruntime-node 1.30 looks at the rows after, too.
  { op: 'MultiHeadAttention', ...microsoft, note: 'a cache of a fixed size, beams', outputs: 3, attributes: { num_heads: 2 }, inputs: [x([2, 1, 8]), x([2, 1, 8]), x([2, 1, 8]), null, null, null, filled(3, [2, 2, 8, 4]), filled(3, [2, 2, 8, 4]), i32([1], [3]), i32([1, 2, 8], Array.from({ length: 16 }, (_, i) => (i * 5) % 3 % 2))] },
  // Only caches of a fixed size have a length.
  { op: 'Attention', ...microsoft, note: 'a length that means nothing', outputs: 2, attributes: { num_heads: 2 }, inputs: [x([2, 1, 8]), c([8, 24]), c([24]), null, x([2, 2, 2, 3, 4]), null, i32([1], [1])] },
  // Nothing is remembered for a filter of one element.
  { op: 'CausalConvWithState', ...microsoft, note: 'of one element', outputs: 2, attributes: { activation: 'silu' }, inputs: [x([2, 3, 5]), c([3, 1, 1]), c([3])] },
  { op: 'MoE', ...microsoft, note: 'no tokens', attributes: { k: 2 }, inputs: [x([0, 3, 8]), x([0, 4]), c([4, 6, 8]), null, c([4, 8, 6])] },
  { op: 'RotaryEmbedding', ...microsoft, inputs: [x([2, 3, 16]), x([2, 3], { type: 'int64', low: 0, high: 8 }), c([8, 4]), c([8, 4])] },
  { op: 'RotaryEmbedding', ...microsoft, attributes: { interleaved: 1 }, inputs: [x([2, 2, 3, 8]), x([1], { type: 'int64', values: [2] }), c([8, 4]), c([8, 4])] },
  { op: 'GroupQueryAttention', ...microsoft, outputs: 3, attributes: { num_heads: 4, kv_num_heads: 2 }, inputs: [x([1, 3, 32]), x([1, 3, 16]), x([1, 3, 16]), null, null, i32([1], [2]), c([1], { type: 'int32', values: [3] })] },
  { op: 'GroupQueryAttention', ...microsoft, outputs: 3, attributes: { num_heads: 4, kv_num_heads: 2, do_rotary: 1 }, inputs: [x([1, 1, 64]), x([1, 1, 32]), x([1, 1, 32]), x([1, 2, 4, 16]), x([1, 2, 4, 16]), i32([1], [4]), c([1], { type: 'int32', values: [5] }), c([16, 8]), c([16, 8])] },
  { op: 'GroupQueryAttention', ...microsoft, note: 'a cache of a fixed size', outputs: 3, attributes: { num_heads: 4, kv_num_heads: 2, do_rotary: 1 }, inputs: [x([1, 1, 64]), x([1, 1, 32]), x([1, 1, 32]), filled(4, [1, 2, 8, 16]), filled(4, [1, 2, 8, 16]), i32([1], [4]), c([1], { type: 'int32', values: [5] }), c([16, 8]), c([16, 8])] },
  // What is after the filled rows counts for nothing, and becomes zeros.
  ...[
    ['one sequence', 8, [4]],
    ['two that are as long', 8, [4, 4]],
    ['two that are not', 8, [4, 2]],
    ['two that are not, which grows', 4, [4, 2]],
  ].map(([note, size, last]) => {
    const [batch, total] = [last.length, c([1], { type: 'int32', values: [5] })];
    const cache = () => x([batch, 2, size, 16]);
    return { op: 'GroupQueryAttention', ...microsoft, note: `${note}, a cache with other rows behind`, outputs: 3, attributes: { num_heads: 4, kv_num_heads: 2 }, inputs: [x([batch, 1, 64]), x([batch, 1, 32]), x([batch, 1, 32]), cache(), cache(), i32([batch], last), total] };
  }),
  { op: 'GroupQueryAttention', ...microsoft, note: 'packed, with a window', outputs: 3, attributes: { num_heads: 4, kv_num_heads: 2, local_window_size: 3 }, inputs: [x([2, 1, 64]), null, null, filled(4, [2, 2, 8, 8]), filled(4, [2, 2, 8, 8]), i32([2], [4, 4]), c([1], { type: 'int32', values: [5] })] },
  // Weights of 7 bits, as in quantize.test.js.
  { op: 'QAttention', ...microsoft, tolerance: 1e-4, attributes: { num_heads: 2 }, inputs: [x([2, 3, 8], { type: 'uint8', low: 0, high: 255 }), c([8, 24], { type: 'int8', low: -64, high: 64 }), c([24]), c([], { values: [0.01] }), c([], { values: [0.02] }), x([2], { type: 'int32', values: [2, 3] }), c([], { type: 'uint8', values: [128] }), c([], { type: 'int8', values: [0] })] },
  { op: 'Attention', opset: 23, inputs: [x([2, 2, 3, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4])] },
  { op: 'Attention', opset: 23, attributes: { is_causal: 1, q_num_heads: 4, kv_num_heads: 2 }, inputs: [x([2, 3, 16]), x([2, 3, 8]), x([2, 3, 8])] },
  { op: 'Attention', opset: 23, outputs: 3, attributes: { q_num_heads: 2, kv_num_heads: 2, softcap: float(2) }, inputs: [x([1, 1, 8]), x([1, 1, 8]), x([1, 1, 8]), x([1, 4]), x([1, 2, 3, 4]), x([1, 2, 3, 4])] },
  { op: 'RMSNormalization', opset: 23, inputs: [x([2, 3, 8]), c([8])] },
  { op: 'RotaryEmbedding', opset: 23, attributes: { num_heads: 2 }, inputs: [x([2, 3, 16]), c([8, 4]), c([8, 4]), x([2, 3], { type: 'int64', low: 0, high: 8 })] },
]);
