'use strict';

// Convolutions, pools, normalizations and recurrent networks beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const float = (value) => ({ float: value });
const convolutions = [
  { inputs: [x([2, 3, 8, 9]), c([4, 3, 3, 3])] },
  { attributes: { pads: [1, 2, 0, 1], strides: [2, 1] }, inputs: [x([1, 3, 8, 9]), c([4, 3, 3, 2]), c([4])] },
  { attributes: { dilations: [2, 1], group: 2 }, inputs: [x([1, 4, 8, 9]), c([6, 2, 3, 3])] },
  { attributes: { group: 4, pads: [1, 1, 1, 1] }, inputs: [x([1, 4, 8, 9]), c([4, 1, 3, 3]), c([4])] },
  { attributes: { auto_pad: 'SAME_UPPER', strides: [2, 3] }, inputs: [x([1, 3, 8, 9]), c([4, 3, 3, 4])] },
  { attributes: { auto_pad: 'SAME_LOWER', strides: [2, 3] }, inputs: [x([1, 3, 8, 9]), c([4, 3, 4, 3])] },
  { attributes: { auto_pad: 'VALID' }, inputs: [x([1, 3, 8, 9]), c([4, 3, 3, 3])] },
  { attributes: { pads: [1, 2], strides: [2], kernel_shape: [3] }, inputs: [x([2, 3, 11]), c([4, 3, 3]), c([4])] },
  { inputs: [x([1, 3, 8, 9]), x([4, 3, 3, 3]), x([4])] },
].map((item) => ({ op: 'Conv', ...item }));
const transposed = [
  { inputs: [x([1, 3, 5, 6]), c([3, 4, 3, 3])] },
  { attributes: { strides: [2, 3], pads: [1, 0, 0, 1], output_padding: [1, 2] }, inputs: [x([1, 3, 5, 6]), c([3, 4, 3, 3]), c([4])] },
  { attributes: { strides: [2, 2], group: 2, dilations: [2, 1] }, inputs: [x([1, 4, 5, 6]), c([4, 3, 3, 2])] },
  { attributes: { strides: [2, 2], output_shape: [10, 12] }, inputs: [x([1, 3, 5, 6]), c([3, 4, 3, 3])] },
  { attributes: { strides: [2, 2], auto_pad: 'SAME_UPPER' }, inputs: [x([1, 3, 5, 6]), c([3, 4, 3, 3])] },
  { attributes: { strides: [2, 2], auto_pad: 'SAME_LOWER' }, inputs: [x([1, 3, 5, 6]), c([3, 4, 3, 3])] },
  { attributes: { strides: [2], pads: [1, 1] }, inputs: [x([1, 3, 5]), c([3, 4, 4])] },
].map((item) => ({ op: 'ConvTranspose', ...item }));
const pools = ['MaxPool', 'AveragePool'].flatMap((op) =>
  [
    { attributes: { kernel_shape: [2, 3] } },
    { attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] } },
    { attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [0, 1, 1, 0], ceil_mode: 1 } },
    { attributes: { kernel_shape: [2, 2], strides: [3, 3], ceil_mode: 1 } },
    { attributes: { kernel_shape: [3, 2], strides: [2, 2], auto_pad: 'SAME_UPPER' } },
    { attributes: { kernel_shape: [3, 2], strides: [2, 2], auto_pad: 'SAME_LOWER' } },
  ].map((item) => ({ op, inputs: [x([1, 2, 8, 9])], ...item })),
);
const other = [
  { op: 'MaxPool', attributes: { kernel_shape: [3, 3], dilations: [2, 2] }, inputs: [x([1, 2, 8, 9])] },
  { op: 'MaxPool', attributes: { kernel_shape: [3], strides: [2], pads: [1, 1] }, inputs: [x([1, 2, 9])] },
  { op: 'AveragePool', attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], count_include_pad: 1 }, inputs: [x([1, 2, 8, 9])] },
  { op: 'AveragePool', opset: 19, attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 0, 0, 1], count_include_pad: 1, ceil_mode: 1 }, inputs: [x([1, 2, 8, 8])] },
  { op: 'AveragePool', attributes: { kernel_shape: [4] }, inputs: [x([1, 2, 9])] },
  { op: 'LpPool', opset: 11, attributes: { kernel_shape: [2, 3], strides: [2, 1], p: 2 }, inputs: [x([1, 2, 8, 9])] },
  ...['GlobalAveragePool', 'GlobalMaxPool', 'GlobalLpPool'].flatMap((op) => [{ op, inputs: [x([2, 3, 4, 5])] }, { op, inputs: [x([2, 3, 7])] }]),
];
const positive = { low: 0.2, high: 2 };
const normalizations = [
  { op: 'BatchNormalization', inputs: [x([2, 3, 4, 5]), c([3]), c([3]), c([3]), c([3], positive)] },
  { op: 'BatchNormalization', opset: 9, attributes: { epsilon: float(0.01) }, inputs: [x([2, 3]), c([3]), c([3]), c([3]), c([3], positive)] },
  // With statistics of each element: MXNet wrote so.
  ...[7, 8].flatMap((opset) => [[3], [3, 4], [3, 4, 5]].map((each) => ({ op: 'BatchNormalization', opset, attributes: { spatial: 0 }, inputs: [x([2, ...each]), c(each), c(each), c(each), c(each, positive)] }))),
  { op: 'BatchNormalization', outputs: 3, attributes: { training_mode: 1 }, inputs: [x([2, 3, 4, 5]), c([3]), c([3]), c([3]), c([3], positive)] },
  { op: 'BatchNormalization', outputs: 3, attributes: { training_mode: 1, momentum: float(0.3) }, inputs: [c([1, 3, 7]), c([3]), c([3]), x([3]), x([3], positive)] },
  { op: 'InstanceNormalization', inputs: [x([2, 3, 4, 5]), c([3]), c([3])] },
  { op: 'InstanceNormalization', attributes: { epsilon: float(0.1) }, inputs: [x([2, 3, 7]), c([3]), c([3])] },
  { op: 'LayerNormalization', inputs: [x([2, 3, 8]), c([8]), c([8])] },
  { op: 'LayerNormalization', attributes: { axis: 1, epsilon: float(0.01) }, inputs: [x([2, 3, 4]), c([3, 4]), c([3, 4])] },
  { op: 'LayerNormalization', inputs: [x([2, 3, 8]), c([8])] },
  { op: 'GroupNormalization', opset: 21, attributes: { num_groups: 2 }, inputs: [x([2, 4, 3, 5]), c([4]), c([4])] },
  { op: 'LpNormalization', attributes: { p: 1, axis: 1 }, inputs: [x([2, 3, 4])] },
  { op: 'LpNormalization', inputs: [x([2, 3, 4])] },
  { op: 'MeanVarianceNormalization', opset: 13, inputs: [x([2, 3, 4, 5])] },
  { op: 'LRN', attributes: { size: 3, alpha: float(0.5), beta: float(0.6), bias: float(2) }, inputs: [x([1, 5, 3, 3])] },
  { op: 'SimplifiedLayerNormalization', outputs: 1, inputs: [x([2, 3, 8]), c([8])] },
  { op: 'SkipLayerNormalization', domain: 'com.microsoft', outputs: ['o0', '', '', 'o3'], inputs: [x([2, 3, 8]), x([2, 3, 8]), c([8]), c([8]), c([8])] },
  { op: 'SkipSimplifiedLayerNormalization', domain: 'com.microsoft', inputs: [x([2, 3, 8]), x([2, 3, 8]), c([8])] },
];
const small = { low: -0.5, high: 0.5 };
const w = (...shape) => c(shape, small);
const recurrent = [['LSTM', 4], ['GRU', 3], ['RNN', 1]].flatMap(([op, gates]) => {
  const outputs = op === 'LSTM' ? 3 : 2;
  const weights = (directions) => [w(directions, gates * 5, 3), w(directions, gates * 5, 5)];
  const biases = (directions) => w(directions, 2 * gates * 5);
  const states = (directions) => [x([directions, 2, 5], small), ...(op === 'LSTM' ? [x([directions, 2, 5], small)] : [])];
  const base = { op, outputs, attributes: { hidden_size: 5 } };
  return [
    { ...base, inputs: [x([4, 2, 3]), ...weights(1)] },
    { ...base, inputs: [x([4, 2, 3]), ...weights(1), biases(1), null, ...states(1)] },
    { ...base, attributes: { hidden_size: 5, direction: 'reverse' }, inputs: [x([4, 2, 3]), ...weights(1), biases(1)] },
    { ...base, attributes: { hidden_size: 5, direction: 'bidirectional' }, inputs: [x([4, 2, 3]), ...weights(2), biases(2), null, ...states(2)] },
    { ...base, outputs: op === 'LSTM' ? ['', 'h', 'c'] : ['', 'h'], inputs: [x([4, 2, 3]), ...weights(1)] },
  ];
});
const more = [
  { op: 'LSTM', outputs: 3, attributes: { hidden_size: 5 }, inputs: [x([4, 2, 3]), w(1, 20, 3), w(1, 20, 5), w(1, 40), null, null, null, c([1, 15], { values: [0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0, 0, 0, 0.5, 0.4, 0.3, 0.2, 0.1] })] },
  { op: 'LSTM', outputs: 1, attributes: { hidden_size: 5, activations: ['Sigmoid', 'Relu', 'Tanh'] }, inputs: [x([4, 2, 3]), w(1, 20, 3), w(1, 20, 5)] },
  { op: 'LSTM', outputs: 1, attributes: { hidden_size: 5 }, inputs: [x([4, 2, 3]), w(1, 20, 3), w(1, 20, 5), null, c([2], { type: 'int32', values: [4, 4] })] },
  { op: 'GRU', outputs: 2, attributes: { hidden_size: 5, linear_before_reset: 1 }, inputs: [x([4, 2, 3]), w(1, 15, 3), w(1, 15, 5), w(1, 30)] },
  { op: 'RNN', outputs: 1, attributes: { hidden_size: 5, activations: ['Relu'] }, inputs: [x([4, 2, 3]), w(1, 5, 3), w(1, 5, 5)] },
];

testCases([...convolutions, ...transposed, ...pools, ...other, ...normalizations, ...recurrent, ...more]);
