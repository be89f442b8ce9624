'use strict';

// Operators that WebNN does not have and the importer puts together, beside onnxruntime-node.

const { c, ints, testCases, x } = require('./compare.js');

const float = (value) => ({ float: value });
const microsoft = { domain: 'com.microsoft' };
const i64 = (shape, values) => c(shape, { type: 'int64', values });
const index = (shape, size) => x(shape, { type: 'int64', low: -size, high: size });
const unsigned = (type, shape, high = 200) => x(shape, { type, low: 0, high });
const truth = { type: 'bool', low: 0, high: 2 };

const inverse = [
  ['Acos', 22, -1, 1], ['Asin', 22, -1, 1], ['Atan', 22, -9, 9], ['Acosh', 22, 1, 9], ['Asinh', 22, -9, 9], ['Atanh', 22, -0.95, 0.95],
].flatMap(([op, opset, low, high]) => [
  { op, opset: 17, inputs: [x([2, 30], { low, high })] },
  { op, opset, inputs: [x([30], { low, high })] },
]);

const sorted = [
  { attributes: {}, inputs: [x([3, 9]), ints(4)] },
  { attributes: { axis: 0 }, inputs: [x([9, 2, 3]), ints(2)] },
  { attributes: { largest: 0, axis: 1 }, inputs: [x([2, 7, 3]), ints(7)] },
  { attributes: {}, inputs: [x([2, 40], { type: 'int64', low: 0, high: 9 }), ints(11)] },
  { attributes: {}, inputs: [x([2, 40], { type: 'int32', low: -9, high: 9 }), ints(1)] },
  { attributes: {}, note: 'one after the other', inputs: [x([3, 5000]), ints(5)] },
  { attributes: { largest: 0 }, note: 'one after the other', inputs: [x([3, 5000]), ints(5)] },
  { attributes: {}, note: 'infinities', inputs: [c([6], { values: [-Infinity, 1, -Infinity, Infinity, 2, -Infinity] }), ints(5)] },
  { attributes: {}, note: 'one after the other, infinities', inputs: [c([200], { values: Array.from({ length: 200 }, (_, i) => (i === 3 ? 1 : -Infinity)) }), ints(3)] },
  { attributes: {}, note: 'blocks', inputs: [x([2, 9001]), ints(150)] },
  { attributes: { largest: 0, axis: 1 }, note: 'blocks', inputs: [x([1, 7003, 2]), ints(200)] },
  { attributes: {}, note: 'blocks of equal numbers', inputs: [x([1, 60000], { type: 'int64', low: -300, high: 300 }), ints(300)] },
  { attributes: { largest: 0 }, note: 'blocks of equal numbers', inputs: [x([40000], { type: 'int32', low: 0, high: 99 }), ints(1000)] },
  { attributes: {}, note: 'all, in parts', inputs: [x([1, 5000]), ints(5000)] },
  { attributes: {}, note: 'many of many', inputs: [x([2, 30000]), ints(9000)] },
].map((item) => ({ op: 'TopK', outputs: 2, ...item }));

const scatters = ['add', 'mul', 'max', 'min'].flatMap((reduction) => [
  { op: 'ScatterElements', opset: 18, attributes: { axis: 1, reduction }, inputs: [x([2, 5]), i64([2, 3], [4, 0, 4, -2, 3, 3]), x([2, 3])] },
  { op: 'ScatterElements', opset: 18, attributes: { reduction }, inputs: [x([4, 5], { type: 'int64', low: -9, high: 9 }), index([2, 3], 4), x([2, 3], { type: 'int64', low: -9, high: 9 })] },
  // As graph networks have it: the updates of the edges are combined in the nodes.
  { op: 'ScatterElements', opset: 18, attributes: { axis: 0, reduction }, note: 'many', tolerance: 1e-4, inputs: [x([30, 384]), index([50, 384], 30), x([50, 384])] },
  { op: 'ScatterND', opset: 18, attributes: { reduction }, inputs: [x([4, 5]), i64([3, 1], [3, 0, -1]), x([3, 5])] },
  { op: 'ScatterND', opset: 18, attributes: { reduction }, inputs: [x([4, 5], { type: 'int32', low: -9, high: 9 }), i64([3, 2], [3, 0, 1, 1, 3, 0]), x([3], { type: 'int32', low: -9, high: 9 })] },
]);

const modes = ['bilinear', 'nearest', 'bicubic'];
const grids = modes.flatMap((mode) =>
  ['zeros', 'border', 'reflection'].flatMap((padding_mode) =>
    [0, 1].map((align_corners) => ({ op: 'GridSample', opset: 16, attributes: { mode, padding_mode, align_corners }, tolerance: 5e-5, inputs: [x([2, 3, 5, 4]), x([2, 3, 6, 2], { low: -1.6, high: 1.6 })] })),
  ),
);

const volumes = [
  { op: 'Conv', inputs: [x([2, 3, 5, 6, 7]), c([4, 3, 3, 2, 3])] },
  { op: 'Conv', attributes: { pads: [1, 0, 1, 2, 1, 0], strides: [2, 1, 2], dilations: [2, 1, 1] }, inputs: [x([1, 4, 7, 6, 7]), c([6, 2, 2, 3, 3]), c([6])].map((input) => input), },
  { op: 'Conv', attributes: { auto_pad: 'SAME_UPPER', strides: [2, 2, 2] }, inputs: [x([1, 2, 5, 6, 7]), c([3, 2, 3, 3, 2]), c([3])] },
  { op: 'Conv', attributes: { group: 2 }, inputs: [x([1, 4, 3, 4, 5]), c([4, 2, 2, 2, 2])] },
  ...['MaxPool', 'AveragePool'].flatMap((op) => [
    { op, attributes: { kernel_shape: [2, 3, 2] }, inputs: [x([2, 3, 5, 6, 7])] },
    { op, attributes: { kernel_shape: [3, 3, 2], strides: [2, 1, 2], pads: [1, 1, 0, 1, 0, 1] }, inputs: [x([1, 2, 5, 6, 7])] },
    { op, attributes: { kernel_shape: [2, 2, 3], strides: [2, 2, 2], ceil_mode: 1 }, inputs: [x([1, 2, 5, 6, 7])] },
    { op, attributes: { kernel_shape: [3, 2, 2], auto_pad: 'SAME_LOWER' }, inputs: [x([1, 2, 5, 6, 7])] },
  ]),
  { op: 'AveragePool', attributes: { kernel_shape: [3, 3, 2], pads: [1, 1, 0, 1, 0, 1], count_include_pad: 1 }, inputs: [x([1, 2, 5, 6, 7])] },
].map((item) => (item.attributes?.dilations ? { ...item, attributes: { ...item.attributes, group: 2 } } : item));

const norms = [1, 3].flatMap((p) => [
  { op: 'LpPool', attributes: { kernel_shape: [2, 3], strides: [2, 1], p, pads: [1, 0, 0, 1] }, inputs: [x([1, 2, 6, 7])] },
  { op: 'GlobalLpPool', attributes: { p }, inputs: [x([1, 2, 6, 7])] },
]);

const indices = [
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 3] }, inputs: [x([2, 2, 5, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1], storage_order: 1 }, inputs: [x([1, 2, 5, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 2], strides: [2, 2], dilations: [2, 1], ceil_mode: 1 }, inputs: [x([1, 2, 7, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [3], strides: [2] }, inputs: [x([2, 2, 9])] },
  // Few numbers, so that equal ones are in one window.
  ...['int8', 'uint8'].flatMap((type) => {
    const few = (shape) => x(shape, type === 'int8' ? { type, low: -128, high: -126 } : { type, low: 0, high: 2 });
    return [
      { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 3], pads: [1, 1, 0, 1] }, inputs: [few([2, 2, 5, 6])] },
      { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [3], strides: [2], pads: [1, 2], ceil_mode: 1 }, inputs: [few([1, 2, 9])] },
      { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 2, 2], pads: [1, 0, 1, 0, 1, 1] }, inputs: [few([1, 2, 4, 5, 3])] },
    ];
  }),
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 3, 2] }, inputs: [x([2, 2, 4, 5, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [3, 2, 3], strides: [2, 1, 2], pads: [1, 1, 1, 1, 0, 1], storage_order: 1 }, inputs: [x([1, 2, 5, 4, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 2, 2], strides: [2, 2, 1], dilations: [2, 1, 3], ceil_mode: 1 }, inputs: [x([1, 2, 7, 5, 6])] },
  { op: 'MaxPool', outputs: 2, attributes: { kernel_shape: [2, 3, 2], strides: [2, 1, 1], auto_pad: 'SAME_LOWER' }, inputs: [x([1, 1, 5, 4, 6])] },
  { op: 'MaxUnpool', opset: 11, attributes: { kernel_shape: [2, 2], strides: [2, 2] }, inputs: [x([1, 1, 2, 2]), i64([1, 1, 2, 2], [1, 6, 8, 15])] },
  { op: 'MaxUnpool', opset: 11, attributes: { kernel_shape: [2, 1, 2], strides: [2, 1, 1], pads: [0, 0, 1, 0, 0, 0] }, inputs: [x([1, 1, 2, 1, 2]), i64([1, 1, 2, 1, 2], [1, 6, 2, 7])] },
];

const bits = [
  ...['uint8', 'uint32', 'uint64'].flatMap((type) =>
    ['LEFT', 'RIGHT'].map((direction) => ({ op: 'BitShift', attributes: { direction }, inputs: [unsigned(type, [20]), unsigned(type, [20], 9)] })),
  ),
  ...['BitwiseAnd', 'BitwiseOr', 'BitwiseXor'].map((op) => ({ op, opset: 18, inputs: [unsigned('uint8', [2, 20], 256), unsigned('uint8', [20], 256)] })),
  { op: 'BitwiseXor', opset: 18, inputs: [unsigned('uint32', [20], 4e9), unsigned('uint32', [20], 4e9)] },
  ...['int32', 'uint8', 'int64'].map((type) => ({ op: 'BitwiseNot', opset: 18, inputs: [unsigned(type, [20], 100)] })),
];

const spectra = [
  { op: 'DFT', inputs: [x([2, 9, 1])] },
  { op: 'DFT', attributes: { onesided: 1 }, inputs: [x([2, 10, 1])] },
  { op: 'DFT', attributes: { inverse: 1 }, inputs: [x([2, 8, 2])] },
  { op: 'DFT', opset: 20, inputs: [x([2, 8, 5, 2]), i64([], [6]), i64([], [1])] },
  { op: 'STFT', inputs: [x([2, 40, 1]), i64([], [5]), c([16]), i64([], [16])] },
  { op: 'STFT', attributes: { onesided: 0 }, inputs: [x([1, 40, 1]), i64([], [8]), null, i64([], [16])] },
  ...['HannWindow', 'HammingWindow', 'BlackmanWindow'].flatMap((op) => [0, 1].map((periodic) => ({ op, attributes: { periodic }, inputs: [i64([], [12])] }))),
  { op: 'MelWeightMatrix', inputs: [i64([], [8]), i64([], [64]), i64([], [16000]), c([], { values: [20] }), c([], { values: [7600] })] },
].map((item) => ({ tolerance: 3e-5, ...item }));

const others = [
  { op: 'Hardmax', opset: 13, inputs: [x([3, 4, 5])] },
  { op: 'Hardmax', opset: 13, attributes: { axis: 1 }, inputs: [x([3, 4, 5])] },
  { op: 'Hardmax', opset: 11, attributes: { axis: 1 }, inputs: [x([3, 4, 5])] },
  { op: 'Compress', attributes: { axis: 1 }, inputs: [x([3, 4]), c([3], { type: 'bool', values: [0, 1, 1] })] },
  { op: 'Compress', inputs: [x([3, 4]), c([5], { type: 'bool', values: [0, 1, 0, 0, 1] })] },
  { op: 'ReverseSequence', attributes: { batch_axis: 0, time_axis: 1 }, inputs: [x([3, 4, 2]), x([3], { type: 'int64', low: 1, high: 5 })] },
  { op: 'ReverseSequence', attributes: { batch_axis: 1, time_axis: 0 }, inputs: [x([4, 3]), i64([3], [4, 1, 3])] },
  { op: 'CenterCropPad', opset: 18, inputs: [x([5, 4, 3]), ints(2, 7, 3)] },
  { op: 'CenterCropPad', opset: 18, attributes: { axes: [-1, 0] }, inputs: [x([5, 4, 3]), ints(6, 4)] },
  { op: 'AffineGrid', opset: 20, inputs: [x([2, 2, 3]), ints(2, 1, 3, 4)] },
  { op: 'AffineGrid', opset: 20, attributes: { align_corners: 1 }, inputs: [x([1, 3, 4]), ints(1, 1, 2, 3, 4)] },
  { op: 'LayerNormalization', outputs: 3, tolerance: 5e-5, inputs: [x([2, 3, 8]), c([8]), c([8])] },
  { op: 'LayerNormalization', outputs: ['y', '', 'deviation'], tolerance: 5e-5, attributes: { axis: 1 }, inputs: [x([2, 3, 8]), c([3, 8])] },
  { op: 'Where', inputs: [x([4], truth), x([4]), x([4])] },
];

const contributed = [
  { op: 'FusedConv', attributes: { activation: 'Relu' }, inputs: [x([1, 3, 6, 6]), c([4, 3, 3, 3]), c([4])] },
  { op: 'FusedConv', attributes: { activation: 'LeakyRelu', activation_params: { floats: [0.2] } }, inputs: [x([1, 3, 6, 6]), c([4, 3, 3, 3]), c([4])] },
  { op: 'FusedGemm', attributes: { activation: 'LeakyRelu', activation_alpha: float(0.2), transB: 1 }, inputs: [x([3, 4]), c([5, 4]), c([5])] },
  ...['Relu', 'Tanh', 'Sigmoid', 'Softplus', 'Softsign'].map((activation) => ({ op: 'FusedGemm', attributes: { activation }, inputs: [x([3, 4]), c([4, 5]), c([5])] })),
  { op: 'FusedGemm', attributes: { activation: 'HardSigmoid', activation_alpha: float(0.3), activation_beta: float(0.4), transA: 1 }, inputs: [x([4, 3]), c([4, 5]), c([3, 1])] },
  { op: 'FusedGemm', attributes: { activation: 'Elu', activation_alpha: float(0.7), alpha: float(0.5), beta: float(2) }, inputs: [x([3, 4]), c([4, 5]), c([3, 5])] },
  { op: 'EmbedLayerNormalization', outputs: 2, tolerance: 5e-5, inputs: [unsigned('int32', [2, 3], 9), unsigned('int32', [2, 3], 2), c([9, 8]), c([5, 8]), c([2, 8]), c([8]), c([8]), c([2, 3], { type: 'int32', values: [1, 1, 0, 1, 1, 1] })] },
  { op: 'BiasGelu', inputs: [x([2, 3, 4]), c([4])] },
  { op: 'Attention', attributes: { num_heads: 2 }, inputs: [x([2, 3, 8]), c([8, 24]), c([24])] },
  { op: 'Attention', attributes: { num_heads: 2, unidirectional: 1 }, inputs: [x([2, 3, 8]), c([8, 24]), c([24])] },
  { op: 'Attention', attributes: { num_heads: 2 }, inputs: [x([2, 3, 8]), c([8, 24]), c([24]), x([2, 3], { type: 'int32', values: [1, 1, 0, 1, 1, 1] })] },
  { op: 'Attention', attributes: { num_heads: 2 }, inputs: [x([2, 3, 8]), c([8, 24]), c([24]), x([2], { type: 'int32', values: [2, 3] })] },
  { op: 'Attention', outputs: 2, attributes: { num_heads: 2 }, inputs: [x([1, 1, 8]), c([8, 24]), c([24]), null, x([2, 1, 2, 4, 4])] },
].map((item) => ({ ...item, ...microsoft }));

// What onnxruntime-node has on GPUs only, beside what says the same in other operators.
const grouped = (input, output, { groups, epsilon, last, activation }) => [
  ...(last ? [{ op: 'Transpose', inputs: [input], outputs: ['first'], attributes: { perm: [0, 3, 1, 2] } }] : []),
  { op: 'GroupNormalization', inputs: [last ? 'first' : input, 'i1', 'i2'], outputs: ['normal'], attributes: { num_groups: groups, epsilon: float(epsilon) } },
  { op: 'Sigmoid', inputs: ['normal'], outputs: ['gate'] },
  { op: activation ? 'Mul' : 'Identity', inputs: activation ? ['normal', 'gate'] : ['normal'], outputs: ['active'] },
  ...(last ? [{ op: 'Transpose', inputs: ['active'], outputs: [output], attributes: { perm: [0, 2, 3, 1] } }] : [{ op: 'Identity', inputs: ['active'], outputs: [output] }]),
];
const channels = (last) => (last ? [2, 3, 5, 4] : [2, 4, 3, 5]);
const elsewhere = [
  ...[
    { last: 1, activation: 0, groups: 2, epsilon: 1e-5 },
    { last: 1, activation: 1, groups: 4, epsilon: 1e-3 },
    { last: 0, activation: 1, groups: 1, epsilon: 1e-5 },
  ].flatMap((options) => {
    const { last, activation, groups, epsilon } = options;
    const attributes = { channels_last: last, activation, groups, epsilon: float(epsilon) };
    const weights = [c([4]), c([4])];
    return [
      { op: 'GroupNorm', attributes, inputs: [x(channels(last)), ...weights], instead: grouped('i0', 'o0', options) },
      {
        op: 'SkipGroupNorm',
        outputs: 2,
        attributes,
        inputs: [x(channels(last)), ...weights, x(channels(last)), ...(last ? [c([4])] : [])],
        instead: [
          { op: 'Add', inputs: ['i0', 'i3'], outputs: ['skipped'] },
          last ? { op: 'Add', inputs: ['skipped', 'i4'], outputs: ['o1'] } : { op: 'Identity', inputs: ['skipped'], outputs: ['o1'] },
          ...grouped('o1', 'o0', options),
        ],
      },
    ];
  }),
  {
    op: 'BiasAdd',
    inputs: [x([2, 6, 8]), c([8]), x([2, 6, 8])],
    instead: [
      { op: 'Add', inputs: ['i0', 'i1'], outputs: ['sum'] },
      { op: 'Add', inputs: ['sum', 'i2'], outputs: ['o0'] },
    ],
  },
  {
    op: 'BiasSplitGelu',
    inputs: [x([2, 6, 16]), c([16])],
    instead: [
      { op: 'Add', inputs: ['i0', 'i1'], outputs: ['sum'] },
      { op: 'Split', inputs: ['sum'], outputs: ['half', 'gate'], attributes: { axis: 2, num_outputs: 2 } },
      { op: 'Gelu', inputs: ['gate'], outputs: ['open'] },
      { op: 'Mul', inputs: ['half', 'open'], outputs: ['o0'] },
    ],
  },
].map((item) => ({ ...item, ...microsoft, opset: 21, tolerance: 5e-5 }));

const attention = [
  { opset: 23, outputs: 1, inputs: [x([2, 2, 3, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4]), x([3, 5], truth)].map((input, i) => (i < 3 ? input : c([3, 5], { type: 'bool', values: [1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1] }))) },
  { opset: 23, inputs: [x([2, 2, 3, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4]), x([2, 1, 3, 5])] },
  { opset: 23, outputs: ['y', '', '', 'scores'], inputs: [x([2, 2, 3, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4])] },
  { opset: 23, outputs: ['y', '', '', 'scores'], attributes: { qk_matmul_output_mode: 3, is_causal: 1 }, inputs: [x([2, 2, 5, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4])] },
  { opset: 24, inputs: [x([2, 2, 1, 4]), x([2, 2, 5, 4]), x([2, 2, 5, 4]), null, null, null, x([2], { type: 'int64', values: [3, 5] })] },
].map((item) => ({ op: 'Attention', ...item }));

testCases([...inverse, ...sorted, ...scatters, ...grids, ...volumes, ...norms, ...indices, ...bits, ...spectra, ...others, ...contributed, ...elsewhere, ...attention]);
