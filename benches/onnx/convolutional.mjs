// A network for images of any size, with seeded weights: as MobileNet has them, expansions, depthwise convolutions, projections.
import { OnnxModel } from './model.mjs';
import { constants } from './seeded.mjs';

/** Channels behind each block, and how far its windows move. */
const BLOCKS = [[24, 2], [24, 1], [40, 2], [40, 1], [80, 2], [80, 1], [80, 1], [112, 1], [160, 2], [160, 1]];

/** @returns {Uint8Array} a model of `image` [batch, 3, height, width], whose output is `classes` [batch, 1000] */
export function convolutional() {
  const model = new OnnxModel();
  const { weight } = constants(model, 11);
  const op = (type, inputs, attributes) => model.operator(type, inputs, attributes);
  const conv = (x, from, to, size, strides, group = 1) =>
    op('Conv', [x, weight(to, from / group, size, size), weight(to)], {
      kernel_shape: [size, size],
      strides: [strides, strides],
      pads: [size >> 1, size >> 1, size >> 1, size >> 1],
      group,
    });
  let channels = 16;
  let x = op('Relu', [conv(model.input('image', ['batch', 3, 'height', 'width']), 3, channels, 3, 2)]);
  for (const [outputs, strides] of BLOCKS) {
    const wide = 4 * channels;
    const expanded = op('Relu', [conv(x, channels, wide, 1, 1)]);
    const passed = op('Relu', [conv(expanded, wide, wide, 3, strides, wide)]);
    const projected = conv(passed, wide, outputs, 1, 1);
    x = strides === 1 && outputs === channels ? op('Add', [x, projected]) : projected;
    channels = outputs;
  }
  const pooled = op('Flatten', [op('GlobalAveragePool', [op('Relu', [conv(x, channels, 640, 1, 1)])])], { axis: 1 });
  model.output('classes', op('Gemm', [pooled, weight(640, 1000), weight(1000)]), ['batch', 1000]);
  return model.encode();
}
