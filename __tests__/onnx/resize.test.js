'use strict';

// Resize and Upsample beside onnxruntime-node.

const { c, ints, testCases, x } = require('./compare.js');

const f = (...values) => c([values.length], { values });
const nothing = c([0], { values: [] });
const scales = (...values) => [x([1, 2, 4, 5]), nothing, f(...values)];
const sizes = (...values) => [x([1, 2, 4, 5]), nothing, nothing, ints(...values)];
const modes = ['half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric'];

const nearest = modes.flatMap((coordinate_transformation_mode) =>
  ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'].flatMap((nearest_mode) => [
    { attributes: { coordinate_transformation_mode, nearest_mode }, inputs: scales(1, 1, 2, 2) },
    { attributes: { coordinate_transformation_mode, nearest_mode }, inputs: sizes(1, 2, 7, 3) },
  ]),
);
const smooth = ['linear', 'cubic'].flatMap((mode) =>
  modes.flatMap((coordinate_transformation_mode) => [
    { attributes: { mode, coordinate_transformation_mode }, inputs: scales(1, 1, 2, 2) },
    { attributes: { mode, coordinate_transformation_mode }, inputs: scales(1, 1, 1.7, 0.6) },
    { attributes: { mode, coordinate_transformation_mode }, inputs: sizes(1, 2, 7, 3) },
  ]),
);
const others = [
  { attributes: { mode: 'cubic', exclude_outside: 1, cubic_coeff_a: { float: -0.5 } }, inputs: scales(1, 1, 2, 2) },
  { opset: 18, attributes: { mode: 'linear', antialias: 1 }, inputs: scales(1, 1, 0.5, 0.6) },
  { opset: 18, attributes: { mode: 'cubic', antialias: 1 }, inputs: scales(1, 1, 0.5, 0.6) },
  { opset: 18, note: 'halves of bytes', attributes: { mode: 'linear', antialias: 1 }, inputs: [x([1, 1, 1, 6], { type: 'uint8', values: [0, 2, 3, 1, 4, 255] }), nothing, f(1, 1, 1, 2)] },
  { opset: 18, attributes: { axes: [2, 3] }, inputs: [x([1, 2, 4, 5]), nothing, f(2, 3)] },
  { opset: 18, attributes: { mode: 'linear', keep_aspect_ratio_policy: 'not_larger', axes: [2, 3] }, inputs: [x([1, 2, 4, 5]), nothing, nothing, ints(8, 20)] },
  { attributes: { mode: 'linear', coordinate_transformation_mode: 'tf_crop_and_resize', extrapolation_value: { float: 10 } }, inputs: [x([1, 1, 4, 5]), f(0, 0, 0.2, -0.2, 1, 1, 0.8, 1.4), nothing, ints(1, 1, 3, 6)] },
];

testCases([
  ...[...nearest, ...smooth, ...others].map((item) => ({ op: 'Resize', tolerance: 2e-5, ...item })),
  { op: 'Resize', opset: 10, inputs: [x([1, 2, 4, 5]), f(1, 1, 2, 2)] },
  { op: 'Resize', opset: 10, attributes: { mode: 'linear' }, inputs: [x([1, 2, 4, 5]), f(1, 1, 2, 2)] },
  { op: 'Upsample', opset: 9, inputs: [x([1, 2, 4, 5]), f(1, 1, 2, 2)] },
  { op: 'Upsample', opset: 9, attributes: { mode: 'linear' }, inputs: [x([1, 2, 4, 5]), f(1, 1, 3, 2)] },
]);
