'use strict';

// Normalizations and norms of numbers of all magnitudes: squares, powers and sums of them leave float32 where the results do not. The
// results are computed by the operators' definitions, of numbers that are scaled so that nothing leaves float64.

const { loadOnnx } = require('webnn-node/onnx');
const { withContexts } = require('./contexts.js');
const { TYPES, tensor, writeModel } = require('./write.js');

const float = (f) => ({ float: f });

/** Batches, channels and places of the inputs. */
const SHAPE = [2, 5, 3, 4];
const [BATCHES, CHANNELS, ...SPACE] = SHAPE;
const PLACES = SPACE[0] * SPACE[1];
const at = (batch, channel, place) => (batch * CHANNELS + channel) * PLACES + place;

const sum = (values) => values.reduce((total, x) => total + x, 0);
const greatest = (values) => Math.max(...values.map(Math.abs));

/** The norm of an order. */
const norm = (values, p) => {
  const most = greatest(values) || 1;
  return most * sum(values.map((x) => Math.abs(x / most) ** p)) ** (1 / p);
};

/** A function of each line along an axis: the places of a line, in their order. */
function lines(axes) {
  const groups = new Map();
  for (let batch = 0; batch < BATCHES; batch += 1) {
    for (let channel = 0; channel < CHANNELS; channel += 1) {
      for (let place = 0; place < PLACES; place += 1) {
        const key = [batch, channel, Math.floor(place / SPACE[1]), place % SPACE[1]].filter((_, axis) => !axes.includes(axis)).join();
        groups.set(key, [...(groups.get(key) ?? []), at(batch, channel, place)]);
      }
    }
  }
  return [...groups.values()];
}

const ofLines = (axes, compute) => (values) => {
  const result = [];
  for (const line of lines(axes)) compute(line.map((i) => values[i])).forEach((value, k) => (result[line[k]] = value));
  return result;
};

const lp = (p) => ofLines([3], (line) => line.map((x) => x / (norm(line, p) || 1)));

const centred = (line) => {
  // Halves, since differences may leave float64 no more than sums.
  const mean = sum(line.map((x) => x / line.length));
  return line.map((x) => x - mean);
};
const deviation = (line) => norm(centred(line), 2) / Math.sqrt(line.length);

function localResponse({ size, alpha, beta, bias }) {
  return (values) =>
    values.map((x, i) => {
      const [batch, channel, place] = [Math.floor(i / PLACES / CHANNELS), Math.floor(i / PLACES) % CHANNELS, i % PLACES];
      const first = Math.max(channel - Math.floor((size - 1) / 2), 0);
      const last = Math.min(channel + Math.floor(size / 2), CHANNELS - 1);
      const window = Array.from({ length: last - first + 1 }, (_, k) => values[at(batch, first + k, place)]);
      return x / Math.hypot(Math.sqrt(bias), norm(window, 2) * Math.sqrt(alpha / size)) ** (2 * beta);
    });
}

const response = { size: 3, alpha: 0.5, beta: 0.75, bias: 2 };

/** Divided by the root of the mean square and a number. */
const rootMeanSquare = (number) => (line) => line.map((x) => x / Math.hypot(norm(line, 2) / Math.sqrt(line.length), Math.sqrt(number)));
const standardized = (number) => (line) => centred(line).map((x) => x / Math.hypot(deviation(line), Math.sqrt(number)));
/** A number for each line. */
const eachLine = (axes, compute) => (values) => lines(axes).map((line) => compute(line.map((i) => values[i])));

/** Norms of windows of 2 x 3 with a column of padding on the left, moved by 1 and 2. */
const windows = (p) => (values) => {
  const result = [];
  for (let plane = 0; plane < BATCHES * CHANNELS; plane += 1) {
    for (let y = 0; y + 1 < SPACE[0]; y += 1) {
      for (let x = -1; x + 2 < SPACE[1]; x += 2) {
        const places = [0, 1].flatMap((i) => [0, 1, 2].filter((j) => x + j >= 0).map((j) => (y + i) * SPACE[1] + x + j));
        result.push(norm(places.map((place) => values[plane * PLACES + place]), p));
      }
    }
  }
  return result;
};
const window = (p) => ({ p, kernel_shape: [2, 3], pads: [0, 1, 0, 0], strides: [1, 2] });

/** Numbers that are as good as any, and values of three tokens in two sequences. */
const PATTERN = Array.from({ length: 120 }, (_, i) => (((i * 29) % 41) - 20) / 16);
const VALUES = Array.from({ length: 120 }, (_, i) => ((i * 13) % 31) / 8);

/** Causal attention of one head to keys, in sequences of three tokens of 20 elements; queries and keys are normalized. */
function attention(query, key) {
  const result = [];
  const token = (values, number) => values.slice(number * 20, (number + 1) * 20);
  for (let number = 0; number < 6; number += 1) {
    const own = rootMeanSquare(0.25)(token(query, number));
    const seen = Array.from({ length: (number % 3) + 1 }, (_, i) => number - (number % 3) + i);
    const scores = seen.map((other) => sum(rootMeanSquare(0.25)(token(key, other)).map((x, i) => x * own[i])) / Math.sqrt(20));
    const shares = scores.map((score) => Math.exp(score - Math.max(...scores)));
    for (let i = 0; i < 20; i += 1) result.push(sum(seen.map((other, j) => shares[j] * token(VALUES, other)[i])) / sum(shares));
  }
  return result;
}

const ones = (...shape) => ({ shape, value: 1 });
const zeros = (...shape) => ({ shape, value: 0 });
const epsilon = float(0.25);
const moved = (given, found) => 0.75 * given + 0.25 * found;

/** Of every operator of the table that sums powers on the way to something smaller: its other inputs, attributes, and definitions. */
const CASES = [
  { op: 'LpNormalization', attributes: { axis: -1, p: 1 }, definitions: [lp(1)] },
  { op: 'LpNormalization', attributes: { axis: -1, p: 2 }, definitions: [lp(2)] },
  { op: 'Normalizer', domain: 'ai.onnx.ml', shape: [24, 5], attributes: { norm: 'L1' }, definitions: [rows((line) => line.map((x) => x / norm(line, 1)))] },
  { op: 'Normalizer', domain: 'ai.onnx.ml', shape: [24, 5], attributes: { norm: 'L2' }, definitions: [rows((line) => line.map((x) => x / norm(line, 2)))] },
  {
    op: 'MeanVarianceNormalization',
    definitions: [ofLines([0, 2, 3], (line) => centred(line).map((x) => x / (deviation(line) + 1e-9)))],
  },
  {
    op: 'LRN',
    attributes: { size: response.size, alpha: float(response.alpha), beta: float(response.beta), bias: float(response.bias) },
    definitions: [localResponse(response)],
  },
  ...[1, 2, 3, 7].flatMap((p) => [
    { op: 'GlobalLpPool', attributes: { p }, definitions: [eachLine([2, 3], (line) => norm(line, p))] },
    { op: 'LpPool', attributes: window(p), definitions: [windows(p)] },
  ]),
  { op: 'ReduceL1', attributes: { axes: [2, 3] }, definitions: [eachLine([2, 3], (line) => norm(line, 1))] },
  { op: 'ReduceL2', attributes: { axes: [1] }, definitions: [eachLine([1], (line) => norm(line, 2))] },
  { op: 'ReduceMean', attributes: { axes: [1, 2, 3] }, definitions: [eachLine([1, 2, 3], (line) => sum(line.map((x) => x / line.length)))] },
  { op: 'InstanceNormalization', attributes: { epsilon }, others: [ones(5), zeros(5)], definitions: [ofLines([2, 3], standardized(0.25))] },
  {
    op: 'BatchNormalization',
    attributes: { epsilon, training_mode: 1, momentum: float(0.75) },
    others: [ones(5), zeros(5), ones(5), ones(5)],
    definitions: [
      ofLines([0, 2, 3], standardized(0.25)),
      eachLine([0, 2, 3], (line) => moved(1, sum(line.map((x) => x / line.length)))),
      eachLine([0, 2, 3], (line) => moved(1, deviation(line) ** 2)),
    ],
  },
  {
    op: 'GroupNormalization',
    opset: 21,
    shape: [2, 6, 2, 5],
    attributes: { num_groups: 2, epsilon },
    others: [ones(6), zeros(6)],
    definitions: [(values) => groupsOf30(values, standardized(0.25))],
  },
  {
    op: 'GroupNorm',
    domain: 'com.microsoft',
    shape: [2, 6, 2, 5],
    attributes: { groups: 2, epsilon, channels_last: 0 },
    others: [ones(6), zeros(6)],
    definitions: [(values) => groupsOf30(values, standardized(0.25))],
  },
  {
    op: 'SkipGroupNorm',
    domain: 'com.microsoft',
    shape: [2, 6, 2, 5],
    attributes: { groups: 2, epsilon, channels_last: 0 },
    others: [ones(6), zeros(6), zeros(2, 6, 2, 5)],
    definitions: [(values) => groupsOf30(values, standardized(0.25))],
  },
  {
    op: 'LayerNormalization',
    attributes: { axis: 2, epsilon },
    others: [ones(...SPACE)],
    definitions: [
      ofLines([2, 3], standardized(0.25)),
      eachLine([2, 3], (line) => sum(line.map((x) => x / line.length))),
      eachLine([2, 3], (line) => 1 / Math.hypot(deviation(line), 0.5)),
    ],
  },
  {
    op: 'SkipLayerNormalization',
    domain: 'com.microsoft',
    shape: [2, 3, 20],
    attributes: { epsilon },
    others: [zeros(2, 3, 20), ones(20), zeros(20)],
    definitions: [rows(standardized(0.25), 20)],
  },
  ...[
    { op: 'RMSNormalization', opset: 23, attributes: { axis: 2, epsilon } },
    { op: 'SimplifiedLayerNormalization', attributes: { axis: 2, epsilon } },
    { op: 'SimplifiedLayerNormalization', domain: 'com.microsoft', attributes: { axis: 2, epsilon } },
  ].map((operator) => ({ ...operator, others: [ones(...SPACE)], definitions: [ofLines([2, 3], rootMeanSquare(0.25))] })),
  // Longer lines, which other kernels compute.
  {
    op: 'RMSNormalization',
    opset: 23,
    shape: [2, 60],
    attributes: { epsilon },
    others: [ones(60)],
    definitions: [rows(rootMeanSquare(0.25), 60)],
  },
  {
    op: 'SkipSimplifiedLayerNormalization',
    domain: 'com.microsoft',
    shape: [2, 3, 20],
    attributes: { epsilon },
    others: [zeros(2, 3, 20), ones(20)],
    definitions: [rows(rootMeanSquare(0.25), 20)],
  },
  {
    op: 'GatedRMSNorm',
    domain: 'com.microsoft',
    shape: [2, 3, 20],
    attributes: { epsilon, activation: 'sigmoid' },
    others: [ones(5), zeros(2, 3, 20)],
    // The sigmoid of 0 is a half.
    definitions: [rows((line) => rootMeanSquare(0.25)(line).map((x) => x / 2))],
  },
  // A radial kernel around 0.
  ...[-126, -60, 0, 60, 126].map((power) => ({
    op: 'SVMRegressor',
    domain: 'ai.onnx.ml',
    shape: [60, 2],
    attributes: {
      kernel_type: 'RBF',
      kernel_params: { floats: [2 ** power, 0, 3] },
      n_supports: 1,
      support_vectors: { floats: [0, 0] },
      coefficients: { floats: [1] },
      rho: { floats: [0] },
    },
    definitions: [rows((line) => [Math.exp(-((norm(line, 2) * 2 ** (power / 2)) ** 2))], 2)],
  })),
  // The product of a head of length 1 and of one whose elements are alike.
  ...[['x', 'other0'], ['other0', 'x']].map(([query, key]) => ({
    op: `GatedDeltaNet, of ${query} and ${key}`,
    shape: [2, 1, 3, 20],
    others: [ones(2, 1, 3, 20), ones(2, 1, 3, 1)],
    nodes: [
      {
        ...node('GatedDeltaNet', [query, key, 'other1'], 'o0', { update_rule: 'linear', qk_l2_norm: 1, scale: float(1) }),
        domain: 'com.microsoft',
      },
    ],
    definitions: [rows((line) => [sum(line) / Math.hypot(norm(line, 2), 1e-3) / Math.sqrt(20 + 1e-6)], 20)],
  })),
  ...[['x', 'other0'], ['other0', 'x']].map(([query, key]) => ({
    op: `GroupQueryAttention with norms, of ${query} and ${key}`,
    shape: [2, 3, 20],
    others: [
      { shape: [2, 3, 20], values: PATTERN },
      { shape: [2, 3, 20], values: VALUES },
      { shape: [2], value: 2, type: 'int32' },
      { shape: [], value: 3, type: 'int32' },
      ones(20),
      ones(20),
    ],
    nodes: [
      {
        ...node('GroupQueryAttention', [query, key, 'other1', '', '', 'other2', 'other3', ...new Array(7).fill(''), 'other4', 'other5'], 'o0', {
          num_heads: 1,
          kv_num_heads: 1,
          qk_norm_epsilon: epsilon,
        }),
        domain: 'com.microsoft',
      },
    ],
    definitions: [(values) => (query === 'x' ? attention(values, PATTERN) : attention(PATTERN, values))],
  })),
  // As exporters write it out.
  ...[(x, root) => [node('Div', [x, root], 'o0')], (x, root) => [node('Reciprocal', [root], 'inverse'), node('Mul', [x, 'inverse'], 'o0')]].map((end) => ({
    op: 'an RMS normalization that is written out',
    shape: [2, 3, 20],
    others: [{ shape: [], value: 2 }, { shape: [], value: 0.25 }],
    nodes: [
      node('Pow', ['x', 'other0'], 'square'),
      node('ReduceMean', ['square'], 'mean', { axes: [-1] }),
      node('Add', ['mean', 'other1'], 'sum'),
      node('Sqrt', ['sum'], 'root'),
      ...end('x', 'root'),
    ],
    definitions: [rows(rootMeanSquare(0.25), 20)],
  })),
];

function node(op, inputs, output, attributes = {}) {
  return { op, domain: '', name: op, inputs, outputs: [output], attributes };
}

/** A function of each of the rows. */
function rows(compute, length = 5) {
  return (values) => Array.from({ length: values.length / length }, (_, i) => compute(values.slice(i * length, (i + 1) * length))).flat();
}

/** Groups of 3 channels with 10 places. */
function groupsOf30(values, compute) {
  return rows(compute, 30)(values);
}

/** Numbers around a power of two, of both signs; in one channel twice as large ones, and at one place one that is alone. */
function numbersAt(power) {
  const count = BATCHES * CHANNELS * PLACES;
  return Array.from({ length: count }, (_, i) => {
    const x = (((i * 37) % 64) / 64 + 0.5) * (i % 3 ? 1 : -1) * (Math.floor(i / PLACES) % CHANNELS === 2 ? 1.25 : 1);
    return Math.fround(x * 2 ** power);
  });
}

const POWERS = [-120, -100, -76, -64, -40, 0, 40, 63, 64, 100, 126];

let contexts;
withContexts((cpu, gpu) => {
  contexts = gpu === undefined ? [cpu] : [cpu, gpu];
});

test.each(CASES.map((row) => [row.op, row.domain ?? '', row.attributes ?? {}, row]))('%s %s %j', async (op, domain, attributes, row) => {
  const { shape = SHAPE, others = [], opset = 17, definitions } = row;
  const outputs = definitions.map((_, i) => `o${i}`);
  const names = others.map((_, i) => `other${i}`);
  const nodes = row.nodes ?? [{ op, domain, name: 'the node', inputs: ['x', ...names], outputs, attributes }];
  const type = 'float';
  const model = writeModel({
    opset,
    inputs: [{ name: 'x', type, shape }],
    outputs: outputs.map((name) => ({ name })),
    initializers: others.map(({ shape, value, values, type: own = type }, i) => {
      const count = shape.reduce((product, size) => product * size, 1);
      return tensor(names[i], own, shape, TYPES[own].array.from(values ?? new Array(count).fill(value)));
    }),
    nodes,
  });
  for (const [device, context] of contexts.entries()) {
    const loaded = await loadOnnx(context, model);
    for (const power of POWERS) {
      const values = numbersAt(power);
      if (!values.every(Number.isFinite)) throw new Error('the numbers leave float32');
      const results = await loaded.run({ x: Float32Array.from(values) });
      for (const [i, name] of outputs.entries()) {
        const expected = definitions[i](values);
        const found = results[name].data;
        expect(found).toHaveLength(expected.length);
        // Relative to the greatest of the results, and infinite where these leave float32; what is subnormal may be 0.
        const allowed = 1e-5 * greatest(expected.filter((value) => Number.isFinite(Math.fround(value)))) + 2 ** -126;
        const wrong = expected.findIndex((value, k) => {
          const isInfinite = !Number.isFinite(Math.fround(value));
          return isInfinite ? found[k] !== Math.sign(value) * Infinity : !(Math.abs(value - found[k]) <= allowed);
        });
        if (wrong >= 0) throw new Error(`on ${['CPU', 'GPU'][device]}, at 2^${power}: ${name}[${wrong}] is ${found[wrong]} and should be ${expected[wrong]}`);
      }
    }
    loaded.destroy();
  }
});
