'use strict';

// Quantized operators beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const bytes = (...shape) => x(shape, { type: 'uint8', low: 0, high: 256 });
const signed = (...shape) => c(shape, { type: 'int8', low: -128, high: 128 });
const point = (type, ...values) => c(values.length === 1 ? [] : [values.length], { type, values });
const scale = (...values) => c(values.length === 1 ? [] : [values.length], { values });

testCases([
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.05), point('uint8', 100)] },
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.05), point('int8', -3)] },
  { op: 'QuantizeLinear', inputs: [x([4, 5]), scale(0.01)] },
  { op: 'QuantizeLinear', attributes: { axis: 0 }, inputs: [x([3, 5]), scale(0.05, 0.02, 0.1), point('uint8', 1, 2, 3)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 5), scale(0.05), point('uint8', 100)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 5), scale(0.05)] },
  { op: 'DequantizeLinear', inputs: [bytes(4, 3), scale(0.05, 0.02, 0.1), point('uint8', 1, 2, 3)] },
  { op: 'DequantizeLinear', attributes: { axis: 0 }, inputs: [signed(3, 5), scale(0.05, 0.02, 0.1)] },
  { op: 'DequantizeLinear', inputs: [x([4, 5], { type: 'int32', low: -99, high: 99 }), scale(0.05)] },
  { op: 'DynamicQuantizeLinear', opset: 11, outputs: 3, inputs: [x([4, 5])] },
  { op: 'DynamicQuantizeLinear', opset: 11, outputs: 3, inputs: [x([4, 5], { low: 1, high: 3 })] },
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(3, 700), signed(700, 4), point('uint8', 128), point('int8', 3)] },
  { op: 'MatMulInteger', opset: 10, inputs: [bytes(2, 3, 7), signed(7, 4)] },
  { op: 'ConvInteger', opset: 10, attributes: { pads: [1, 1, 1, 1] }, inputs: [bytes(1, 3, 5, 5), c([4, 3, 3, 3], { type: 'uint8', low: 0, high: 256 }), point('uint8', 7), point('uint8', 9)] },
  { op: 'QLinearMatMul', opset: 10, apart: 1, inputs: [bytes(3, 8), scale(0.02), point('uint8', 128), signed(8, 4), scale(0.03), point('int8', 0), scale(0.5), point('uint8', 100)] },
  { op: 'QLinearConv', opset: 10, apart: 1, inputs: [bytes(1, 3, 5, 5), scale(0.02), point('uint8', 128), signed(4, 3, 3, 3), scale(0.03), point('int8', 0), scale(0.5), point('uint8', 100), c([4], { type: 'int32', low: -99, high: 99 })] },
  { op: 'MatMulNBits', domain: 'com.microsoft', tolerance: 1e-4, attributes: { K: 64, N: 5, bits: 4, block_size: 32 }, inputs: [x([3, 64]), c([5, 2, 16], { type: 'uint8', low: 0, high: 256 }), c([10], { low: 0.01, high: 0.1 })] },
  { op: 'MatMulNBits', domain: 'com.microsoft', tolerance: 1e-4, attributes: { K: 80, N: 5, bits: 4, block_size: 32 }, inputs: [x([2, 3, 80]), c([5, 3, 16], { type: 'uint8', low: 0, high: 256 }), c([15], { low: 0.01, high: 0.1 }), c([10], { type: 'uint8', low: 0, high: 256 })] },
]);
