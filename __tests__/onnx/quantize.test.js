'use strict';

// Quantized operators beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const bytes = (...shape) => x(shape, { type: 'uint8', low: 0, high: 256 });
// Weights of 7 bits: without VNNI onnxruntime adds two products of uint8 and int8 in 16 bits, and more would not fit. The kernels'
// own tests have all numbers.
const sevenBits = { type: 'int8', low: -64, high: 64 };
const signed = (...shape) => c(shape, sevenBits);
const point = (type, ...values) => c(values.length === 1 ? [] : [values.length], { type, values });
const scale = (...values) => c(values.length === 1 ? [] : [values.length], { values });

const microsoft = { domain: 'com.microsoft' };
const contributed = [
  { op: 'DynamicQuantizeMatMul', tolerance: 1e-4, inputs: [x([3, 8]), c([8, 5], sevenBits), scale(0.03), point('int8', 0), c([5])] },
  { op: 'MatMulIntegerToFloat', tolerance: 1e-4, inputs: [x([3, 8], { type: 'uint8', low: 0, high: 255 }), c([8, 5], { type: 'uint8', low: 0, high: 255 }), scale(0.02), scale(0.03), point('uint8', 120), point('uint8', 130), c([5])] },
  { op: 'QGemm', apart: 1, attributes: { transB: 1 }, inputs: [x([3, 8], { type: 'uint8', low: 0, high: 255 }), scale(0.02), point('uint8', 128), c([5, 8], sevenBits), scale(0.03), point('int8', 0), c([5], { type: 'int32', low: -99, high: 99 }), scale(0.5), point('uint8', 100)] },
  { op: 'QLinearSigmoid', apart: 1, inputs: [x([3, 8], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), scale(0.004), point('uint8', 0)] },
  { op: 'QLinearLeakyRelu', apart: 1, attributes: { alpha: { float: 0.2 } }, inputs: [x([3, 8], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), scale(0.05), point('uint8', 100)] },
  { op: 'QLinearSoftmax', apart: 1, attributes: { axis: -1, opset: 13 }, inputs: [x([3, 8], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), scale(0.0039), point('uint8', 0)] },
  { op: 'QLinearConcat', apart: 1, attributes: { axis: 1 }, inputs: [scale(0.05), point('uint8', 100), x([2, 3], { type: 'uint8', low: 0, high: 255 }), scale(0.04), point('uint8', 90), x([2, 2], { type: 'uint8', low: 0, high: 255 }), scale(0.06), point('uint8', 120)] },
  { op: 'QLinearWhere', apart: 1, inputs: [x([3, 8], { type: 'bool', low: 0, high: 2 }), x([3, 8], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), c([8], { type: 'uint8', low: 0, high: 255 }), scale(0.03), point('uint8', 100), scale(0.06), point('uint8', 120)] },
  { op: 'QLinearWhere', apart: 1, inputs: [x([2, 1, 4], { type: 'bool', low: 0, high: 2 }), x([3, 1], { type: 'int8', low: -128, high: 127 }), scale(0.05), point('int8', 5), x([2, 3, 4], { type: 'int8', low: -128, high: 127 }), scale(0.03), point('int8', -9), scale(0.04), point('int8', 0)] },
  { op: 'QLinearGlobalAveragePool', apart: 1, attributes: { channels_last: 0 }, inputs: [x([2, 3, 4, 5], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), scale(0.03), point('uint8', 110)] },
  { op: 'QLinearAveragePool', apart: 1, attributes: { kernel_shape: [2, 2], strides: [2, 2] }, inputs: [x([2, 3, 4, 6], { type: 'uint8', low: 0, high: 255 }), scale(0.05), point('uint8', 128), scale(0.05), point('uint8', 110)] },
  // A state that lies between two steps may be rounded either way.
  { op: 'DynamicQuantizeLSTM', outputs: 3, tolerance: 5e-3, note: 'both directions', attributes: { hidden_size: 20, direction: 'bidirectional' }, inputs: [x([4, 1, 9]), c([2, 9, 80], sevenBits), c([2, 20, 80], sevenBits), c([2, 160]), null, x([2, 1, 20]), x([2, 1, 20]), c([2, 60], { low: -0.3, high: 0.3 }), c([2], { values: [0.005, 0.003] }), c([2], { type: 'int8', values: [0, 0] }), c([2], { values: [0.004, 0.002] }), c([2], { type: 'int8', values: [0, 0] })] },
  { op: 'DynamicQuantizeLSTM', outputs: 3, tolerance: 5e-3, note: 'a scale for each column', attributes: { hidden_size: 16, direction: 'reverse' }, inputs: [x([5, 3, 7]), c([1, 7, 64], sevenBits), c([1, 16, 64], sevenBits), null, null, null, null, null, c([1, 64], { low: 0.001, high: 0.005 }), c([1, 64], { type: 'int8', values: new Array(64).fill(0) }), c([1, 64], { low: 0.001, high: 0.005 }), c([1, 64], { type: 'int8', values: new Array(64).fill(0) })] },
  { op: 'DynamicQuantizeLSTM', outputs: 3, tolerance: 5e-2, note: 'other functions', attributes: { hidden_size: 4, activations: ['HardSigmoid', 'Tanh', 'Tanh'] }, inputs: [x([3, 2, 5]), c([1, 5, 16], sevenBits), c([1, 4, 16], sevenBits), c([1, 32]), null, null, null, null, c([1], { values: [0.005] }), c([1], { type: 'int8', values: [0] }), c([1], { values: [0.004] }), c([1], { type: 'int8', values: [0] })] },
  { op: 'DynamicQuantizeLSTM', outputs: 3, tolerance: 5e-3, attributes: { hidden_size: 4 }, inputs: [x([3, 2, 5]), c([1, 5, 16], sevenBits), c([1, 4, 16], sevenBits), c([1, 32]), null, null, null, null, c([1], { values: [0.005] }), c([1], { type: 'int8', values: [0] }), c([1], { values: [0.004] }), c([1], { type: 'int8', values: [0] })] },
].map((item) => ({ ...item, ...microsoft }));
const few = (shape) => c(shape, { type: 'uint8', low: 0, high: 256 });
const rows = x([2, 3], { type: 'int64', low: 0, high: 6 });
const gathered = [
  { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16, bits: 4 }, inputs: [few([6, 16]), rows, c([6, 2], { low: 0.1, high: 1 })] },
  { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16, bits: 4 }, inputs: [few([6, 24]), rows, c([6, 3], { low: 0.1, high: 1 }), few([6, 2])] },
  { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16, bits: 8 }, inputs: [few([6, 32]), rows, c([6, 2], { low: 0.1, high: 1 })] },
  { attributes: { gather_axis: 0, quantize_axis: 2, block_size: 16, bits: 8 }, inputs: [few([6, 2, 32]), rows, c([6, 2, 2], { low: 0.1, high: 1 }), few([6, 2, 2])] },
  ...['int4', 'uint4'].flatMap((type) => [
    { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16 }, inputs: [c([6, 32], { type, low: 0, high: 16 }), rows, c([6, 2], { low: 0.1, high: 1 })] },
    { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16 }, inputs: [c([6, 32], { type, low: 0, high: 16 }), rows, c([6, 2], { low: 0.1, high: 1 }), c([6, 2], { type, low: 0, high: 16 })] },
    { attributes: { gather_axis: 0, quantize_axis: 2, block_size: 16 }, inputs: [c([6, 2, 32], { type, low: 0, high: 16 }), rows, c([6, 2, 2], { low: 0.1, high: 1 })] },
    // Along the last axis, and rows that begin within a byte.
    { attributes: { gather_axis: 2, quantize_axis: 1, block_size: 16 }, inputs: [c([2, 32, 6], { type, low: 0, high: 16 }), rows, c([2, 2, 6], { low: 0.1, high: 1 }), c([2, 2, 6], { type, low: 0, high: 16 })] },
    { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16 }, inputs: [c([6, 25], { type, low: 0, high: 16 }), rows, c([6, 2], { low: 0.1, high: 1 })] },
    { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16 }, inputs: [c([6, 34], { type, low: 0, high: 16 }), rows, c([6, 3], { low: 0.1, high: 1 }), c([6, 3], { type, low: 0, high: 16 })] },
  ]),
  { attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16, bits: 2 }, inputs: [few([6, 8]), rows, c([6, 2], { low: 0.1, high: 1 })] },
  { attributes: { gather_axis: 0, quantize_axis: 2, block_size: 16, bits: 2 }, inputs: [few([6, 2, 12]), rows, c([6, 2, 3], { low: 0.1, high: 1 }), few([6, 2, 1])] },
].map((item) => ({ op: 'GatherBlockQuantized', ...microsoft, ...item }));

// Large enough for kernels that multiply integers.
const unsigned = (...shape) => c(shape, { type: 'uint8', low: 0, high: 256 });
const int8s = (...shape) => x(shape, { type: 'int8', low: -128, high: 128 });
const scales = (...shape) => c(shape, { low: 0.01, high: 0.1 });
const large = [
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(5, 700), signed(700, 40), point('uint8', 128), point('int8', 0)] },
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(13, 259), unsigned(259, 33), point('uint8', 255), point('uint8', 100)] },
  { op: 'MatMulInteger', opset: 10, inputs: [int8s(2, 3, 90), signed(90, 40), point('int8', -128)] },
  { op: 'MatMulInteger', opset: 10, note: 'a zero point for each column', inputs: [bytes(7, 300), unsigned(300, 24), point('uint8', 3), c([24], { type: 'uint8', low: 0, high: 256 })] },
  { op: 'MatMulInteger', opset: 10, note: 'one row', inputs: [bytes(1, 385), signed(385, 70), point('uint8', 131), point('int8', -7)] },
  { op: 'MatMulInteger', opset: 10, note: 'both computed', inputs: [bytes(2, 3, 9, 20), x([2, 3, 20, 8], sevenBits), point('uint8', 9), point('int8', 5)] },
  { op: 'MatMulInteger', opset: 10, note: 'a stack of weights', inputs: [bytes(3, 5, 21), unsigned(3, 21, 18), point('uint8', 1), point('uint8', 255)] },
  // Sums above 2^24.
  { op: 'MatMulInteger', opset: 10, inputs: [x([2, 1500], { type: 'uint8', low: 200, high: 256 }), c([1500, 5], { type: 'uint8', low: 200, high: 256 })] },
  { op: 'ConvInteger', opset: 10, attributes: { strides: [2, 1] }, inputs: [bytes(1, 120, 5, 6), unsigned(8, 120, 3, 3)] },
  { op: 'ConvInteger', opset: 10, attributes: { pads: [1, 1], kernel_shape: [3] }, inputs: [bytes(1, 400, 9), unsigned(8, 400, 3)] },
  { op: 'ConvInteger', opset: 10, attributes: { group: 2 }, inputs: [bytes(2, 240, 4, 5), unsigned(6, 120, 3, 3)] },
  // As many groups as channels, and groups whose channels are summed at once.
  { op: 'ConvInteger', opset: 10, attributes: { group: 24, pads: [1, 1, 1, 1] }, inputs: [bytes(1, 24, 7, 7), unsigned(24, 1, 3, 3), point('uint8', 7), point('uint8', 9)] },
  { op: 'ConvInteger', opset: 10, attributes: { group: 6, strides: [2] }, inputs: [bytes(2, 6, 9), signed(12, 1, 3), point('uint8', 200)] },
  { op: 'ConvInteger', opset: 10, attributes: { group: 3 }, inputs: [bytes(1, 12, 4, 5), signed(6, 4, 3, 3), point('uint8', 128), point('int8', -3)] },
  { op: 'ConvInteger', opset: 10, attributes: { pads: [1, 1, 1, 1] }, inputs: [bytes(1, 8, 9, 9), unsigned(16, 8, 3, 3), point('uint8', 7), point('uint8', 9)] },
  { op: 'ConvInteger', opset: 10, attributes: { strides: [2, 2] }, inputs: [bytes(2, 3, 9, 8), signed(16, 3, 3, 2), point('uint8', 255)] },
  { op: 'QLinearMatMul', opset: 10, apart: 1, inputs: [bytes(11, 80), scale(0.02), point('uint8', 128), signed(80, 40), scale(0.03), point('int8', 0), scale(1.5), point('uint8', 100)] },
  { op: 'QLinearMatMul', opset: 10, apart: 1, inputs: [int8s(11, 80), scale(0.02), point('int8', 3), signed(80, 40), scales(40), c([40], { type: 'int8', values: new Array(40).fill(0) }), scale(2.5), point('int8', -5)] },
  { op: 'QLinearConv', opset: 10, apart: 1, attributes: { pads: [1, 0, 1, 2] }, inputs: [bytes(1, 6, 9, 9), scale(0.02), point('uint8', 128), signed(12, 6, 3, 3), scales(12), c([12], { type: 'int8', values: new Array(12).fill(0) }), scale(1.5), point('uint8', 100), c([12], { type: 'int32', low: -9999, high: 9999 })] },
  { op: 'QLinearConv', opset: 10, apart: 1, inputs: [bytes(1, 8, 9, 9), scale(0.02), point('uint8', 3), unsigned(16, 8, 1, 1), scale(0.03), point('uint8', 131), scale(0.5), point('uint8', 100)] },
  { op: 'QGemm', ...microsoft, apart: 1, attributes: { transB: 1 }, inputs: [bytes(9, 40), scale(0.02), point('uint8', 128), signed(24, 40), scale(0.03), point('int8', 0), c([24], { type: 'int32', low: -999, high: 999 }), scale(1.5), point('uint8', 100)] },
  { op: 'DynamicQuantizeMatMul', ...microsoft, tolerance: 1e-4, inputs: [x([9, 300]), c([300, 24], sevenBits), scale(0.01), point('int8', 0), c([24])] },
  { op: 'MatMulIntegerToFloat', ...microsoft, tolerance: 1e-4, inputs: [bytes(9, 300), unsigned(300, 24), scale(0.01), scales(24), point('uint8', 120), c([24], { type: 'uint8', values: new Array(24).fill(128) }), c([24])] },
];

// Weights of a few bits. Where rows may be rounded to bytes (accuracy_level 4), onnxruntime rounds them too.
const nbits = (bits, [rows, K, N, block_size], { level = 0, zeros = null, groups = null, bias = null } = {}) => {
  const blocks = Math.ceil(K / block_size);
  const points = zeros === 'packed' ? unsigned(N * Math.ceil((blocks * bits) / 8)) : zeros === 'float' ? c([N * blocks], { low: 0, high: 1 << bits }) : null;
  return {
    op: 'MatMulNBits',
    ...microsoft,
    tolerance: level === 4 ? 2e-2 : 1e-4,
    attributes: { K, N, bits, block_size, accuracy_level: level },
    inputs: [x([rows, K]), unsigned(N, blocks, (block_size * bits) / 8), c([N * blocks], { low: 0.01, high: 0.1 }), points, groups && c([K], { type: 'int32', values: groups(K, block_size) }), bias && c([N])],
  };
};
const swapped = (K, size) => Array.from({ length: K }, (_, k) => Math.floor((K - 1 - k) / size));
const lowBits = [
  nbits(4, [3, 64, 5, 32]),
  { ...nbits(4, [6, 80, 5, 32], { zeros: 'packed' }), inputs: [x([2, 3, 80]), ...nbits(4, [6, 80, 5, 32], { zeros: 'packed' }).inputs.slice(1)] },
  nbits(4, [1, 256, 70, 16], { bias: true }),
  nbits(4, [20, 96, 70, 32], { zeros: 'packed', bias: true }),
  nbits(4, [2, 128, 40, 128], { zeros: 'float' }),
  nbits(4, [2, 128, 40, 32], { groups: swapped }),
  nbits(8, [3, 64, 5, 32], { zeros: 'packed', bias: true }),
  nbits(8, [1, 64, 40, 32]),
  nbits(2, [2, 128, 40, 64]),
  nbits(2, [12, 128, 40, 64], { zeros: 'packed' }),
  ...[1, 4, 20].flatMap((rows) => [nbits(4, [rows, 256, 70, 32], { level: 4 }), nbits(8, [rows, 256, 70, 32], { level: 4, zeros: 'packed' })]),
  ...[0, 1].flatMap((quant_type) =>
    [64, 16].map((block_size) => ({ op: 'MatMulBnb4', ...microsoft, tolerance: 1e-4, attributes: { K: 64, N: 20, block_size, quant_type }, inputs: [x([3, 64]), unsigned(640), c([1280 / block_size], { low: 0.1, high: 1 })] })),
  ),
];

testCases([
  ...large,
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.05), point('uint8', 100)] },
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.05), point('int8', -3)] },
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.01)] },
  { op: 'QuantizeLinear', attributes: { axis: 0 }, inputs: [x([3, 5]), scale(0.05, 0.02, 0.1), point('uint8', 1, 2, 3)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 5), scale(0.05), point('uint8', 100)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 5), scale(0.05)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 3), scale(0.05, 0.02, 0.1), point('uint8', 1, 2, 3)] },
  { op: 'DequantizeLinear', attributes: { axis: 0 }, inputs: [signed(3, 5), scale(0.05, 0.02, 0.1)] },
  { op: 'DequantizeLinear', inputs: [x([4, 5], { type: 'int32', low: -99, high: 99 }), scale(0.05)] },
  ...['int4', 'uint4'].flatMap((type) => {
    const four = (...shape) => c(shape, { type, low: 0, high: 8 });
    return [
      { op: 'DequantizeLinear', opset: 21, inputs: [four(4, 3), scale(0.05, 0.02, 0.1), four(3)] },
      { op: 'DequantizeLinear', opset: 21, attributes: { axis: 0 }, inputs: [four(3, 5), scale(0.05, 0.02, 0.1)] },
      // Large enough for weights that stay packed.
      { op: 'DequantizeLinear', opset: 21, attributes: { axis: 0 }, inputs: [four(70, 64), c([70], { low: 0.01, high: 0.1 }), four(70)] },
    ];
  }),
  { op: 'DynamicQuantizeLinear', opset: 11, outputs: 3, inputs: [x([4, 5])] },
  { op: 'DynamicQuantizeLinear', opset: 11, note: 'nothing', outputs: 3, inputs: [x([0, 3])] },
  { op: 'DynamicQuantizeLinear', opset: 11, outputs: 3, inputs: [x([4, 5], { low: 1, high: 3 })] },
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(3, 700), signed(700, 4), point('uint8', 128), point('int8', 3)] },
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(2, 3, 7), signed(7, 4)] },
  { op: 'ConvInteger', opset: 10, attributes: { pads: [1, 1, 1, 1] }, inputs: [bytes(1, 3, 5, 5), c([4, 3, 3, 3], { type: 'uint8', low: 0, high: 256 }), point('uint8', 7), point('uint8', 9)] },
  { op: 'QLinearMatMul', opset: 10, apart: 1, inputs: [bytes(3, 8), scale(0.02), point('uint8', 128), signed(8, 4), scale(0.03), point('int8', 0), scale(0.5), point('uint8', 100)] },
  { op: 'QLinearConv', opset: 10, apart: 1, inputs: [bytes(1, 3, 5, 5), scale(0.02), point('uint8', 128), signed(4, 3, 3, 3), scale(0.03), point('int8', 0), scale(0.5), point('uint8', 100), c([4], { type: 'int32', low: -99, high: 99 })] },
  ...lowBits,
  ...contributed,
  ...gathered,
]);
