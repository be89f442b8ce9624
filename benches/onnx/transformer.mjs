// A sentence encoder as exporters write it, with seeded weights: batch and sequence are open.
import { OnnxModel } from './model.mjs';
import { constants } from './seeded.mjs';

/**
 * @param {{layers: number, width: number, heads: number, words?: number, positions?: number, batch?: number | string, sequence?: number | string}} sizes
 * @returns {Uint8Array} a model of input_ids and attention_mask, whose output is last_hidden_state
 */
export function transformer({ layers, width, heads, words = 4096, positions = 512, batch = 'batch', sequence = 'sequence' }) {
  const model = new OnnxModel();
  const { weight, longs, number } = constants(model, 7);
  const op = (type, inputs, attributes) => model.operator(type, inputs, attributes);
  const dense = (x, from, to) => op('Add', [op('MatMul', [x, weight(from, to)]), weight(to)]);
  const norm = (x) => op('LayerNormalization', [x, weight(width), weight(width)], { axis: -1, epsilon: { float: 1e-12 } });

  const ids = model.input('input_ids', [batch, sequence], 'int64');
  const mask = model.input('attention_mask', [batch, sequence], 'int64');
  // The positions of a sequence of any length are the first rows of the table.
  const shape = op('Shape', [ids]);
  const length = op('Gather', [shape, longs(1)]);
  const places = op('Slice', [weight(positions, width), longs(0), length, longs(0)]);
  let x = norm(op('Add', [op('Gather', [weight(words, width), ids]), places]));
  const wide = op('Unsqueeze', [op('Cast', [mask], { to: 1 }), longs(1, 2)]);
  const bias = op('Mul', [op('Sub', [number(1), wide]), number(-10000)]);
  const split = (value, order) => op('Transpose', [op('Reshape', [value, longs(0, 0, heads, width / heads)])], { perm: order });
  for (let layer = 0; layer < layers; layer++) {
    const [query, key, value] = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]].map((order) => split(dense(x, width, width), order));
    const scores = op('Add', [op('Mul', [op('MatMul', [query, key]), number(1 / Math.sqrt(width / heads))]), bias]);
    const mixed = op('MatMul', [op('Softmax', [scores], { axis: -1 }), value]);
    const joined = op('Reshape', [op('Transpose', [mixed], { perm: [0, 2, 1, 3] }), longs(0, 0, width)]);
    x = norm(op('Add', [x, dense(joined, width, width)]));
    const inner = dense(x, width, 4 * width);
    const gelu = op('Mul', [op('Mul', [inner, op('Add', [op('Erf', [op('Div', [inner, number(Math.SQRT2)])]), number(1)])]), number(0.5)]);
    x = norm(op('Add', [x, dense(gelu, 4 * width, width)]));
  }
  model.output('last_hidden_state', x, [batch, sequence, width]);
  return model.encode();
}
