// Small networks of tables, with seeded weights: what servers run for each request.
import { OnnxModel } from '../onnx/model.mjs';
import { constants, generator } from '../onnx/seeded.mjs';

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

/** By their names: the file, and the input of a client by a seed. */
export const models = {
  table: { about: '32 numbers, three products up to 64 wide', make: () => network([32, 64, 64, 4]), input: (seed) => ({ data: numbers(32, seed), shape: [1, 32] }) },
  wide: { about: '256 numbers, four products up to 512 wide', make: () => network([256, 512, 512, 256, 8]), input: (seed) => ({ data: numbers(256, seed), shape: [1, 256] }) },
  embedding: { about: '12 categories, a table of 5000 vectors, three products', make: embedding, input: (seed) => ({ data: categories(FIELDS, seed), shape: [1, FIELDS] }) },
};
