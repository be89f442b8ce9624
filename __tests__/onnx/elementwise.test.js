'use strict';

// Element-wise operators beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const positive = { low: 0.1, high: 3 };
const unary = (op, opset = 17, range = {}, attributes = {}) => ({ op, opset, attributes, inputs: [x([2, 3, 4], range)] });
const float = (value) => ({ float: value });

const functions = ['Abs', 'Ceil', 'Cos', 'Erf', 'Exp', 'Floor', 'Neg', 'Round', 'Sign', 'Sin', 'Tan', 'Relu', 'Sigmoid', 'Tanh', 'Softplus', 'Softsign', 'Sinh', 'Cosh', 'HardSwish'];
const activations = [
  unary('Elu', 17, {}, { alpha: float(1.5) }),
  unary('Elu'),
  unary('LeakyRelu', 17, {}, { alpha: float(0.2) }),
  unary('LeakyRelu'),
  unary('HardSigmoid', 17, {}, { alpha: float(0.3), beta: float(0.4) }),
  unary('HardSigmoid'),
  unary('Selu'),
  unary('Selu', 17, {}, { alpha: float(2), gamma: float(1.5) }),
  unary('Celu', 17, {}, { alpha: float(2) }),
  unary('ThresholdedRelu', 17, {}, { alpha: float(0.5) }),
  unary('Shrink', 17, {}, { bias: float(0.25), lambd: float(0.75) }),
  unary('Mish', 18),
  unary('Gelu', 20),
  unary('Gelu', 20, {}, { approximate: 'tanh' }),
  { ...unary('Gelu'), domain: 'com.microsoft' },
  { ...unary('QuickGelu', 17, {}, { alpha: float(1.25) }), domain: 'com.microsoft' },
  { ...unary('FastGelu'), domain: 'com.microsoft' },
  { op: 'FastGelu', domain: 'com.microsoft', inputs: [x([2, 3, 4]), c([4])] },
  { op: 'BiasGelu', domain: 'com.microsoft', inputs: [x([2, 3, 4]), c([4])] },
  { op: 'PRelu', inputs: [x([2, 3, 4]), c([3, 1])] },
  unary('Dropout', 13),
  unary('Identity'),
];

const broadcast = [
  [[2, 3], [2, 3]],
  [[2, 3], [3]],
  [[3, 1], [2, 1, 4]],
  [[], [2]],
];
const types = ['float', 'int32', 'int64'];
const arithmetic = ['Add', 'Sub', 'Mul'].flatMap((op) =>
  types.flatMap((type) => broadcast.map(([a, b]) => ({ op, inputs: [x(a, { type, low: -9, high: 9 }), x(b, { type, low: -9, high: 9 })] }))),
);
const division = types.map((type) => ({ op: 'Div', inputs: [x([4, 5], { type, low: -90, high: 90 }), x([5], { type, low: 1, high: 7 })] }));
const modulo = [
  ...['int32', 'int64'].flatMap((type) =>
    [0, 1].map((fmod) => ({ op: 'Mod', opset: 13, attributes: { fmod }, inputs: [x([40], { type, low: -20, high: 20 }), c([40], { type, values: Array.from({ length: 40 }, (_, i) => (i % 2 ? -1 : 1) * (1 + (i % 7))) })] })),
  ),
  { op: 'Mod', opset: 13, attributes: { fmod: 1 }, inputs: [x([40], { low: -9, high: 9 }), x([40], positive)] },
  // Quotients that float32 does not hold.
  { op: 'Mod', opset: 13, attributes: { fmod: 1 }, note: 'large quotients', inputs: [x([40, 1], { low: -1e9, high: 1e9 }), c([6], { values: [7, -11, 0.1, 6.2831855, 1e-3, 1e-30] })] },
];
const powers = [
  { op: 'Pow', inputs: [x([2, 3], positive), x([3], { low: -2, high: 2 })] },
  { op: 'Pow', inputs: [x([2, 3]), c([], { values: [2] })] },
  { op: 'Pow', inputs: [x([2, 3], positive), c([], { type: 'int64', values: [3] })] },
  { op: 'Pow', inputs: [x([2, 3], { type: 'int32', low: -4, high: 4 }), c([], { type: 'int32', values: [3] })] },
];
const variadic = ['Max', 'Min', 'Sum', 'Mean'].flatMap((op) => [
  { op, inputs: [x([2, 3])] },
  { op, inputs: [x([2, 3]), x([3])] },
  { op, inputs: [x([2, 1]), x([3]), c([2, 3])] },
]);
const integers = { type: 'int64', low: -50, high: 50 };
const comparisons = ['Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual'].flatMap((op) => [
  { op, inputs: [x([2, 30], { type: 'int32', low: -3, high: 3 }), x([30], { type: 'int32', low: -3, high: 3 })] },
  { op, inputs: [x([2, 3]), x([3])] },
]);
const truth = { type: 'bool', low: 0, high: 2 };
const logic = [
  ...['And', 'Or', 'Xor'].map((op) => ({ op, inputs: [x([2, 8], truth), x([8], truth)] })),
  { op: 'Not', inputs: [x([8], truth)] },
  { op: 'Where', inputs: [x([2, 8], truth), x([8]), c([2, 1])] },
  { op: 'Where', inputs: [x([2, 8], truth), x([8], integers), c([], { type: 'int64', values: [7] })] },
];
const odd = { values: [NaN, Infinity, -Infinity, 0, 1, -1] };
const questions = [
  { op: 'IsNaN', inputs: [x([6], odd)] },
  { op: 'IsInf', opset: 20, inputs: [x([6], odd)] },
  ...[[0, 1], [1, 0], [0, 0]].map(([n, p]) => ({ op: 'IsInf', opset: 20, attributes: { detect_negative: n, detect_positive: p }, inputs: [x([6], odd)] })),
];
const clip = [
  { op: 'Clip', opset: 6, attributes: { min: float(-1), max: float(0.5) }, inputs: [x([20])] },
  { op: 'Clip', opset: 8, inputs: [x([20])] },
  { op: 'Clip', inputs: [x([20]), c([], { values: [-1] }), c([], { values: [1] })] },
  { op: 'Clip', inputs: [x([20]), null, c([], { values: [1] })] },
  { op: 'Clip', inputs: [x([20]), x([], { values: [-0.5] }), x([], { values: [0.5] })] },
  { op: 'Clip', inputs: [x([20], integers), c([], { type: 'int64', values: [-5] })] },
].filter(({ opset }) => opset !== 6);
const casts = [
  ['float', 6], ['float', 7], ['float', 9], ['float', 10], ['int64', 1], ['int64', 6], ['int32', 7], ['int32', 9], ['bool', 1], ['uint8', 1], ['float', 11],
].map(([type, to]) => ({ op: 'Cast', attributes: { to }, inputs: [x([20], { type, low: type === 'bool' || type === 'uint8' ? 0 : -9, high: type === 'bool' ? 2 : 9 })] }))
;
const doubles = [
  { op: 'Add', inputs: [x([2, 3], { type: 'double' }), c([3], { type: 'double' })] },
  { op: 'MatMul', inputs: [x([3, 4], { type: 'double' }), c([4, 5], { type: 'double' })] },
  { op: 'Sqrt', inputs: [x([20], { type: 'double', ...positive })] },
  { op: 'ReduceSum', inputs: [x([4, 5], { type: 'double' })] },
  { op: 'Cast', attributes: { to: 1 }, inputs: [x([20], { type: 'double', low: -9, high: 9 })] },
  { op: 'Cast', attributes: { to: 7 }, inputs: [x([20], { type: 'double', low: -9, high: 9 })] },
  { op: 'Where', inputs: [x([8], truth), x([8], { type: 'double' }), c([], { type: 'double', values: [7] })] },
];
// Types of models' inputs as they come from tokenizers and images.
const bytes = [
  ...['uint8', 'int8', 'int64', 'uint32', 'uint64', 'bool'].map((type) => ({ op: 'Cast', attributes: { to: 1 }, inputs: [x([20], { type, low: 0, high: type === 'bool' ? 2 : 120 })] })),
  { op: 'Identity', inputs: [x([2, 5], { type: 'uint8', low: 0, high: 256 })] },
  { op: 'Concat', attributes: { axis: 0 }, inputs: [x([2, 5], { type: 'uint8', low: 0, high: 256 }), c([1, 5], { type: 'uint8', low: 0, high: 256 })] },
  { op: 'Transpose', inputs: [x([2, 5], { type: 'uint8', low: 0, high: 256 })] },
  { op: 'ReduceMax', inputs: [x([2, 5], { type: 'uint8', low: 0, high: 256 })] },
  { op: 'Mod', opset: 13, inputs: [x([40], { low: -9, high: 9 , type: 'int32' }), c([], { type: 'int32', values: [5] })] },
];
const halves = [
  { op: 'Add', inputs: [x([2, 3], { type: 'float16' }), x([3], { type: 'float16' })] },
  { op: 'Sigmoid', inputs: [x([20], { type: 'float16' })] },
  { op: 'Softmax', inputs: [x([2, 5], { type: 'float16' })] },
  { op: 'MatMul', inputs: [x([3, 4], { type: 'float16' }), x([4, 5], { type: 'float16' })] },
];

testCases([
  ...functions.map((op) => unary(op)),
  unary('Log', 17, positive),
  unary('Sqrt', 17, positive),
  unary('Reciprocal', 17, positive),
  unary('Abs', 17, integers),
  unary('Sign', 17, integers),
  unary('Neg', 17, integers),
  ...activations,
  ...arithmetic,
  ...division,
  ...modulo,
  ...powers,
  ...variadic,
  ...comparisons,
  ...logic,
  ...questions,
  ...clip,
  ...casts,
  ...halves,
  ...doubles,
  ...bytes,
]);
