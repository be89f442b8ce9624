'use strict';

// Reductions, softmax, positions and products beside onnxruntime-node.

const { c, ints, testCases, x } = require('./compare.js');

const reductions = ['ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceMax', 'ReduceMean', 'ReduceMin', 'ReduceProd', 'ReduceSum', 'ReduceSumSquare'];
const positive = { low: 0.1, high: 2 };
const sumTakesInput = (op, opset) => opset >= (op === 'ReduceSum' ? 13 : 18);
const reduced = reductions.flatMap((op) =>
  [
    [11, [1], {}],
    [11, undefined, { keepdims: 0 }],
    [18, [0, -1], { keepdims: 0 }],
    [18, undefined, {}],
    [18, undefined, { noop_with_empty_axes: 1 }],
  ].map(([opset, axes, attributes]) => {
    const input = x([2, 3, 4], positive);
    if (axes === undefined) return { op, opset, attributes, inputs: [input] };
    if (sumTakesInput(op, opset)) return { op, opset, attributes, inputs: [input, ints(...axes)] };
    return { op, opset, attributes: { ...attributes, axes }, inputs: [input] };
  }),
)
  // onnxruntime copies the input where it should be reduced element by element.
  .filter(({ op, attributes }) => !(attributes.noop_with_empty_axes && ['ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceSumSquare'].includes(op)));
const whole = { type: 'int32', low: -9, high: 9 };
const positions = ['ArgMax', 'ArgMin'].flatMap((op) => [
  { op, inputs: [x([3, 4])] },
  { op, attributes: { axis: -1, keepdims: 0 }, inputs: [x([3, 4])] },
  { op, attributes: { axis: 1, select_last_index: 1 }, inputs: [x([5, 9], { type: 'int32', low: 0, high: 3 })] },
]);
const softmax = ['Softmax', 'LogSoftmax'].flatMap((op) => [
  { op, opset: 11, inputs: [x([2, 3, 4])] },
  { op, opset: 11, attributes: { axis: 2 }, inputs: [x([2, 3, 4])] },
  { op, opset: 11, attributes: { axis: 0 }, inputs: [x([2, 3, 4])] },
  { op, opset: 13, inputs: [x([2, 3, 4], { low: -80, high: 80 })] },
  { op, opset: 13, attributes: { axis: 1 }, inputs: [x([2, 3, 4])] },
]);
const products = [
  { op: 'MatMul', inputs: [x([3, 4]), x([4, 5])] },
  { op: 'MatMul', inputs: [x([2, 3, 4]), c([4, 5])] },
  { op: 'MatMul', inputs: [x([2, 1, 3, 4]), x([3, 4, 5])] },
  { op: 'MatMul', inputs: [x([4]), x([4, 5])] },
  { op: 'MatMul', inputs: [x([2, 3, 4]), x([4])] },
  { op: 'MatMul', inputs: [x([4]), x([4])] },
  { op: 'Gemm', inputs: [x([3, 4]), c([4, 5])] },
  { op: 'Gemm', opset: 9, attributes: { alpha: { float: 0.5 }, beta: { float: 2 }, transA: 1, transB: 1 }, inputs: [x([4, 3]), c([5, 4]), c([5])] },
  { op: 'Gemm', attributes: { transB: 1 }, inputs: [x([3, 4]), c([5, 4]), x([3, 1])] },
  { op: 'Gemm', inputs: [x([3, 4]), c([4, 5]), c([])] },
  { op: 'Gemm', note: 'of nothing', attributes: { transA: 1 }, inputs: [x([0, 3]), x([0, 5]), x([3, 1])] },
  { op: 'Gemm', note: 'of nothing', inputs: [x([3, 0]), x([0, 5])] },
  ...['ReduceSum', 'ReduceProd', 'ReduceMax'].flatMap((op) =>
    [0, 1].map((noop_with_empty_axes) => ({ op, opset: 18, note: 'of nothing, without axes', attributes: { noop_with_empty_axes }, inputs: [x([2, 0]), ints()] })),
  ),
  { op: 'FusedMatMul', domain: 'com.microsoft', attributes: { alpha: { float: 0.5 }, transA: 1, transB: 1 }, inputs: [x([2, 4, 3]), x([2, 5, 4])] },
  { op: 'FusedMatMul', domain: 'com.microsoft', attributes: { transBatchA: 1 }, inputs: [x([3, 2, 4]), x([2, 4, 5])] },
  { op: 'FusedMatMul', domain: 'com.microsoft', attributes: { transBatchA: 1, transA: 1, transBatchB: 1, transB: 1 }, inputs: [x([4, 2, 3, 5]), x([6, 2, 3, 4])] },
  ...[
    ['ij,jk->ik', [3, 4], [4, 5]],
    ['bij,bjk->bik', [2, 3, 4], [2, 4, 5]],
    ['bhid,bhjd->bhij', [2, 3, 4, 5], [2, 3, 6, 5]],
    ['bij,jk', [2, 3, 4], [4, 5]],
    ['i,j->ij', [3], [4]],
    ['ij->ji', [3, 4]],
    ['ij->', [3, 4]],
    ['bij->bj', [2, 3, 4]],
    ['i,i->', [3], [3]],
    ['ij,ij->ij', [3, 4], [3, 4]],
    ['ij,jk,kl->il', [3, 4], [4, 5], [5, 2]],
    ['bnij,bnjd->bind', [2, 3, 4, 5], [2, 3, 5, 6]],
  ].map(([equation, ...shapes]) => ({ op: 'Einsum', attributes: { equation }, inputs: shapes.map((shape) => x(shape)) })),
];

testCases([
  ...reduced,
  { op: 'ReduceSum', inputs: [x([3, 4], whole), ints(0)] },
  { op: 'ReduceMax', inputs: [x([3, 4], whole)] },
  { op: 'ReduceProd', attributes: { axes: [1] }, inputs: [x([3, 4], whole)] },
  ...positions,
  ...softmax,
  ...products,
]);
