// Networks with seeded weights that servers run for each request: small ones of tables, and encoders of texts of mixed lengths.
import { OnnxModel } from '../onnx/model.mjs';
import { constants, generator, lengths } from '../onnx/seeded.mjs';
import { transformer } from '../onnx/transformer.mjs';
import { madeUp } from '../real/inputs.mjs';

/** Layers of products with a function between them. */
function layers(model, x, widths, weight) {
  return widths.slice(1).reduce((value, width, i) => {
    const y = model.operator('Gemm', [value, weight(widths[i], width), weight(width)]);
    return i === widths.length - 2 ? y : model.operator('Relu', [y]);
  }, x);
}

function network(widths) {
  const model = new OnnxModel();
  const { weight } = constants(model, 17);
  model.output('y', model.operator('Softmax', [layers(model, model.input('x', ['batch', widths[0]]), widths, weight)], { axis: 1 }), ['batch', widths.at(-1)]);
  return model.encode();
}

const [WORDS, FIELDS, WIDTH] = [5000, 12, 16];

/** Numbers of categories, which a table makes vectors of, and a network behind it. */
function embedding() {
  const model = new OnnxModel();
  const { weight } = constants(model, 19);
  const vectors = model.operator('Gather', [weight(WORDS, WIDTH), model.input('x', ['batch', FIELDS], 'int64')]);
  const widths = [FIELDS * WIDTH, 256, 64, 1];
  model.output('y', model.operator('Sigmoid', [layers(model, model.operator('Flatten', [vectors], { axis: 1 }), widths, weight)]), ['batch', 1]);
  return model.encode();
}

const numbers = (length, seed) => {
  const random = generator(seed);
  return Float32Array.from({ length }, random);
};
const categories = (length, seed) => {
  const random = generator(seed);
  return BigInt64Array.from({ length }, () => BigInt(Math.floor(((random() + 1) / 2) * WORDS)));
};

/** A text of a length that is drawn, with its mask. */
function text(most, seed) {
  const length = lengths(most, seed)();
  const random = generator(seed + 1000);
  const ids = BigInt64Array.from({ length }, () => BigInt(Math.floor(((random() + 1) / 2) * 4096)));
  const shape = [1, length];
  return { input_ids: { data: ids, shape }, attention_mask: { data: new BigInt64Array(length).fill(1n), shape } };
}

/** By their names: the file, what a client passes by a seed, and how far results may be from those of runs alone. */
export const models = {
  table: { about: '32 numbers, three products up to 64 wide', make: () => network([32, 64, 64, 4]), inputs: (seed) => ({ x: { data: numbers(32, seed), shape: [1, 32] } }), near: 1e-5 },
  wide: { about: '256 numbers, four products up to 512 wide', make: () => network([256, 512, 512, 256, 8]), inputs: (seed) => ({ x: { data: numbers(256, seed), shape: [1, 256] } }), near: 1e-5 },
  embedding: { about: '12 categories, a table of 5000 vectors, three products', make: embedding, inputs: (seed) => ({ x: { data: categories(FIELDS, seed), shape: [1, FIELDS] } }), near: 1e-5 },
  sentences: { about: 'texts of 1 to 24 tokens, 3 layers of 128', make: () => transformer({ layers: 3, width: 128, heads: 4 }), inputs: (seed) => text(24, seed), near: 1e-3 },
  minilm: { about: 'texts of 1 to 64 tokens, 6 layers of 384 as MiniLM has', make: () => transformer({ layers: 6, width: 384, heads: 12 }), inputs: (seed) => text(64, seed), near: 1e-3 },
  bert: { about: 'texts of 1 to 128 tokens, 12 layers of 768 as BERT has', make: () => transformer({ layers: 12, width: 768, heads: 12 }), inputs: (seed) => text(128, seed), near: 1e-3 },
};

/**
 * A model file with inputs of numbers from a seed.
 *
 * @param {string} file
 * @param {{dimensions: Record<string, number>, mixed: Record<string, number>, values: Record<string, number>}} settings as of `madeUp`; `mixed`
 *   has the largest sizes of dimensions that each client draws
 */
export function fromFile(file, { dimensions, mixed, values }) {
  const inputs = (seed, model) => {
    const drawn = Object.fromEntries(Object.entries(mixed).map(([name, most]) => [name, lengths(most, seed)()]));
    const metadata = model.inputs.map((input) => ({ ...input, type: input.dataType }));
    const made = madeUp(metadata, { dimensions: { ...dimensions, ...drawn }, values }, seed);
    return Object.fromEntries(made.map(({ name, array, shape }) => [name, { data: array, shape }]));
  };
  return { make: () => file, inputs, near: 1e-3 };
}
