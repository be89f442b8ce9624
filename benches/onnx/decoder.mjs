// A decoder as exporters write it, with seeded weights: it takes a token, and the keys and values of all tokens before.
import { OnnxModel } from './model.mjs';
import { constants } from './seeded.mjs';

/**
 * @param {{layers: number, width: number, heads: number, words?: number}} sizes
 * @returns {Uint8Array} a model of input_ids [1, sequence] and past_N_key and past_N_value [1, heads, past, width / heads]; logits and present_N_…
 */
export function decoder({ layers, width, heads, words = 4096 }) {
  const model = new OnnxModel();
  const { weight, longs, number } = constants(model, 13);
  const op = (type, inputs, attributes) => model.operator(type, inputs, attributes);
  const dense = (x, from, to) => op('Add', [op('MatMul', [x, weight(from, to)]), weight(to)]);
  const norm = (x) => op('LayerNormalization', [x, weight(width), weight(width)], { axis: -1, epsilon: { float: 1e-5 } });
  const ids = model.input('input_ids', [1, 'sequence'], 'int64');
  const split = (value) => op('Transpose', [op('Reshape', [value, longs(0, 0, heads, width / heads)])], { perm: [0, 2, 1, 3] });
  let x = op('Gather', [weight(words, width), ids]);
  for (let layer = 0; layer < layers; layer++) {
    const y = norm(x);
    const [query, key, value] = [0, 1, 2].map(() => split(dense(y, width, width)));
    const [keys, values] = [['key', key], ['value', value]].map(([kind, own]) => {
      const past = model.input(`past_${layer}_${kind}`, [1, heads, 'past', width / heads]);
      const all = op('Concat', [past, own], { axis: 2 });
      model.output(`present_${layer}_${kind}`, all, [1, heads, 'total', width / heads]);
      return all;
    });
    const scores = op('Mul', [op('MatMul', [query, op('Transpose', [keys], { perm: [0, 1, 3, 2] })]), number(1 / Math.sqrt(width / heads))]);
    const mixed = op('Transpose', [op('MatMul', [op('Softmax', [scores], { axis: -1 }), values])], { perm: [0, 2, 1, 3] });
    x = op('Add', [x, dense(op('Reshape', [mixed, longs(0, 0, width)]), width, width)]);
    x = op('Add', [x, dense(op('Relu', [dense(norm(x), width, 4 * width)]), 4 * width, width)]);
  }
  model.output('logits', op('MatMul', [norm(x), weight(width, words)]), [1, 'sequence', words]);
  return model.encode();
}
