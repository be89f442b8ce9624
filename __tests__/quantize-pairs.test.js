'use strict';

// A pair of quantizeLinear and dequantizeLinear gives the numbers of the two operators, whether it is computed as one step or the integers are
// an output: NaN, for which neither WebNN nor ONNX have an integer, becomes the integer 0, as in `cast`.

const { MLGraphBuilder } = require('..');
const { withContexts } = require('./onnx/contexts.js');
const { halfBits, halfValue } = require('./onnx/random.js');

let contexts;
withContexts((cpu, gpu) => {
  contexts = gpu === undefined ? [cpu] : [cpu, gpu];
});

const RANGES = { int8: [-128, 127, Int8Array], uint8: [0, 255, Uint8Array] };
const special = [NaN, Infinity, -Infinity, 0, -0, 1e30, -1e30, 0.25, 0.75, -0.25, 1e-40];

/** Numbers to both sides of what the integers reach, every third of them a special one. */
const numbers = (count) => Float32Array.from({ length: count }, (_, i) => (i % 3 === 1 ? special[((i - 1) / 3) % special.length] : (((i * 37) % 101) - 50) * 3));

const even = (value) => {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
};

/** What stands before the pair: `count` numbers, which are the input's. */
const makers = {
  'an input': (builder, x) => x,
  'a sum': (builder, x, constant, shape) => builder.add(x, constant(shape, 0)),
  'a product': (builder, x, constant, [channels, count]) =>
    builder.reshape(builder.matmul(builder.reshape(x, [channels * count, 1]), constant([1, 1], 1)), [channels, count]),
  'a convolution': (builder, x, constant, [channels, count]) =>
    builder.reshape(builder.conv2d(builder.reshape(x, [1, 1, channels, count]), constant([1, 1, 1, 1], 1)), [channels, count]),
};

const CHANNELS = 3;
const cases = ['float32', 'float16'].flatMap((dataType) =>
  Object.entries({ int8: [0, 5, -128], uint8: [0, 3, 255] }).flatMap(([type, points]) =>
    points.flatMap((point) => ['one scale', 'a scale for each row'].flatMap((scales) => Object.keys(makers).map((maker) => [dataType, type, point, scales, maker]))),
  ),
);

test.each(cases)('%s to %s with a zero point of %i and %s, behind %s', async (dataType, type, point, scales, maker) => {
  const [least, most, Integers] = RANGES[type];
  const isHalf = dataType === 'float16';
  const toArray = (values) => (isHalf ? Uint16Array.from(values, halfBits) : Float32Array.from(values));
  const toNumbers = (array) => (isHalf ? Array.from(array, halfValue) : Array.from(array));
  const sizes = scales === 'one scale' ? [0.5] : [0.5, 0.25, 2];

  const make = async (context, shape, isApart) => {
    const builder = new MLGraphBuilder(context);
    const constant = (of, value) => builder.constant({ dataType, shape: of }, toArray(new Array(of.reduce((a, b) => a * b, 1)).fill(value)));
    const value = makers[maker](builder, builder.input('x', { dataType, shape }), constant, shape);
    const scale = builder.constant({ dataType, shape: [sizes.length, 1] }, toArray(sizes));
    const zeroPoint = builder.constant({ dataType: type, shape: [sizes.length, 1] }, new Integers(sizes.length).fill(point));
    const q = builder.quantizeLinear(value, scale, zeroPoint);
    const y = builder.mul(builder.dequantizeLinear(q, scale, zeroPoint), constant([1], 2));
    return builder.build(isApart ? { q, y } : { y });
  };

  for (const [device, context] of contexts.entries()) {
    for (const count of [1, 5, 333]) {
      const shape = [CHANNELS, count];
      const data = toArray(numbers(CHANNELS * count));
      const size = (i) => sizes[sizes.length > 1 ? Math.floor(i / count) : 0];
      const q = toNumbers(data).map((x, i) => (Number.isNaN(x) ? 0 : Math.min(Math.max(even(x / size(i)) + point, least), most)));
      const y = q.map((integer, i) => (integer - point) * size(i) * 2);
      for (const isApart of [false, true]) {
        const graph = await make(context, shape, isApart);
        const given = { y: isHalf ? new Uint16Array(data.length) : new Float32Array(data.length), ...(isApart && { q: new Integers(data.length) }) };
        const { outputs } = await context.compute(graph, { x: data.slice() }, given);
        // A zero has no sign here.
        const found = { y: toNumbers(outputs.y).map((x) => x + 0), ...(isApart && { q: Array.from(outputs.q, (x) => x + 0) }) };
        expect({ device: ['CPU', 'GPU'][device], ...found }).toEqual({ device: ['CPU', 'GPU'][device], y: y.map((x) => x + 0), ...(isApart && { q: q.map((x) => x + 0) }) });
        graph.destroy();
      }
    }
  }
});
