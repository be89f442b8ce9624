'use strict';

// Normalizations and norms of numbers of all magnitudes: squares, powers and sums of them leave float32 where the results do not. The
// results are computed by the operators' definitions, of numbers that are scaled so that nothing leaves float64.

const { loadOnnx } = require('webnn-node/onnx');
const { withContexts } = require('./contexts.js');
const { writeModel } = require('./write.js');

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
const CASES = [
  ['LpNormalization', { axis: -1, p: 1 }, [lp(1)]],
  ['LpNormalization', { axis: -1, p: 2 }, [lp(2)]],
  ['MeanVarianceNormalization', {}, [ofLines([0, 2, 3], (line) => centred(line).map((x) => x / (deviation(line) + 1e-9)))]],
  ['LRN', Object.fromEntries(Object.entries(response).map(([key, value]) => [key, key === 'size' ? value : float(value)])), [localResponse(response)]],
  ['GlobalLpPool', { p: 1 }, [(values) => lines([2, 3]).map((line) => norm(line.map((i) => values[i]), 1))]],
  ['GlobalLpPool', { p: 2 }, [(values) => lines([2, 3]).map((line) => norm(line.map((i) => values[i]), 2))]],
  ['GlobalLpPool', { p: 3 }, [(values) => lines([2, 3]).map((line) => norm(line.map((i) => values[i]), 3))]],
  [
    'LayerNormalization',
    { axis: 2, epsilon: float(0.25) },
    [
      ofLines([2, 3], (line) => centred(line).map((x) => x / Math.hypot(deviation(line), 0.5))),
      (values) => lines([2, 3]).map((line) => sum(line.map((i) => values[i] / line.length))),
      (values) => lines([2, 3]).map((line) => 1 / Math.hypot(deviation(line.map((i) => values[i])), 0.5)),
    ],
  ],
];

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

test.each(CASES)('%s %j', async (op, attributes, definitions) => {
  const { opset = 17 } = attributes;
  const layer = op === 'LayerNormalization';
  const outputs = definitions.map((_, i) => `o${i}`);
  const model = writeModel({
    opset,
    inputs: [
      { name: 'x', type: 'float', shape: SHAPE },
      ...(layer ? [{ name: 'scale', type: 'float', shape: SPACE }] : []),
    ],
    outputs: outputs.map((name) => ({ name })),
    initializers: [],
    nodes: [{ op, domain: '', name: 'the node', inputs: layer ? ['x', 'scale'] : ['x'], outputs, attributes }],
  });
  for (const [device, context] of contexts.entries()) {
    const loaded = await loadOnnx(context, model);
    for (const power of POWERS) {
      const values = numbersAt(power);
      if (!values.every(Number.isFinite)) throw new Error('the numbers leave float32');
      const x = Float32Array.from(values);
      const results = await loaded.run(layer ? { x, scale: new Float32Array(PLACES).fill(1) } : { x });
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
