'use strict';

// Networks with every kind of product, for tests of what fpMath does to them. As a program: computes each of them with each way of saying
// that float32 is to be strict, with the permission for bfloat16 in between, and prints whether the bits are the same.

const { ml, MLGraphBuilder } = require('../..');
const { seededNumbers } = require('../seeded-numbers.js');

/** What networks are written with: constants of numbers that keep magnitudes. */
function writer(builder) {
  let seed = 1;
  const constant = (shape, scale = 1) => {
    const count = shape.reduce((a, b) => a * b, 1);
    return builder.constant({ dataType: 'float32', shape }, seededNumbers(count, 2, (seed += 7)).map((x) => x * scale));
  };
  return {
    constant,
    input: (name, shape) => builder.input(name, { dataType: 'float32', shape }),
    /** A convolution of an image with its channels last, and a bias. */
    conv(x, [outputs, size, channels], options = {}) {
      const scale = Math.sqrt(3 / (size * size * channels));
      const filter = constant([outputs, size, size, channels], scale);
      const half = (size - 1) / 2;
      const padding = [half, half, half, half];
      return builder.conv2d(x, filter, { bias: constant([outputs], 0.1), padding, inputLayout: 'nhwc', filterLayout: 'ohwi', ...options });
    },
    linear(x, [depth, columns]) {
      return builder.add(builder.matmul(x, constant([depth, columns], Math.sqrt(3 / depth))), constant([columns], 0.1));
    },
  };
}

/** By name: how it is written, with the shape of its input. */
const NETWORKS = {
  images: [[1, 32, 32, 3], (builder, x) => {
    const { conv, constant } = writer(builder);
    let y = builder.relu(conv(x, [32, 3, 3], { strides: [2, 2] }));
    y = builder.relu(conv(y, [64, 1, 32]));
    for (let block = 0; block < 3; block++) {
      const inside = builder.relu(conv(builder.relu(conv(y, [48, 1, 64])), [48, 3, 48]));
      y = builder.relu(builder.add(conv(inside, [64, 1, 48]), y));
    }
    y = builder.clamp(conv(y, [64, 3, 1], { groups: 64, filterLayout: 'ohwi' }), { minValue: 0, maxValue: 6 });
    y = builder.relu(conv(y, [96, 3, 64], { strides: [2, 2] }));
    y = builder.averagePool2d(builder.sigmoid(conv(y, [130, 1, 96])), { layout: 'nhwc' });
    return builder.gemm(builder.reshape(y, [1, 130]), constant([130, 40], 0.2));
  }],
  text: [[2, 24, 96], (builder, x) => {
    const { linear, constant } = writer(builder);
    const heads = (y) => builder.transpose(builder.reshape(y, [2, 24, 3, 32]), { permutation: [0, 2, 1, 3] });
    const normalized = (y) => builder.layerNormalization(y, { axes: [2], scale: constant([96]), bias: constant([96]) });
    let y = x;
    for (let layer = 0; layer < 2; layer++) {
      const [query, key, value] = [0, 1, 2].map(() => heads(linear(y, [96, 96])));
      const scores = builder.matmul(query, builder.transpose(key, { permutation: [0, 1, 3, 2] }));
      const scaled = builder.mul(scores, builder.constant({ dataType: 'float32', shape: [] }, new Float32Array([0.17])));
      const attended = builder.matmul(builder.softmax(scaled, 3), value);
      const merged = builder.reshape(builder.transpose(attended, { permutation: [0, 2, 1, 3] }), [2, 24, 96]);
      y = normalized(builder.add(linear(merged, [96, 96]), y));
      y = normalized(builder.add(linear(builder.gelu(linear(y, [96, 384])), [384, 96]), y));
    }
    return y;
  }],
  sequences: [[6, 3, 40], (builder, x) => {
    const { constant, linear } = writer(builder);
    const [, , y] = builder.lstm(x, constant([1, 256, 40], 0.2), constant([1, 256, 64], 0.2), 6, 64, { returnSequence: true });
    return linear(builder.reshape(y, [18, 64]), [64, 33]);
  }],
};

/** Computes a network in a context. */
async function compute(context, name) {
  const [shape, write] = NETWORKS[name];
  const builder = new MLGraphBuilder(context);
  const output = write(builder, builder.input('x', { dataType: 'float32', shape }));
  const graph = await builder.build({ y: output });
  const y = new Float32Array(output.shape.reduce((a, b) => a * b, 1));
  const { outputs } = await context.compute(graph, { x: seededNumbers(shape.reduce((a, b) => a * b, 1), 2, 99) }, { y });
  graph.destroy();
  return outputs.y;
}

module.exports = { NETWORKS, compute };

async function main() {
  const results = {};
  for (const name of Object.keys(NETWORKS)) {
    const found = [];
    for (const options of [{}, { fpMath: 'bf16' }, { fpMath: 'strict' }]) {
      const context = await ml.createContext({ deviceType: 'cpu', numThreads: 2, ...options });
      found.push(Buffer.from((await compute(context, name)).buffer).toString('base64'));
      context.destroy();
    }
    results[name] = { isStrict: found[0] === found[2], isRounded: found[0] !== found[1] };
  }
  console.log(JSON.stringify(results));
}

if (require.main === module) main();
