// Networks of products, from 20 µs to 100 ms on a core of 100 GFLOP/s.
import { OnnxModel } from '../onnx/model.mjs';
import { constants } from '../onnx/seeded.mjs';

/** Layers that take turns with so many weights, so that the longest has no more of them than a cache of 16 MiB holds. */
function network({ rows, width, layers, weights = layers }) {
  return () => {
    const model = new OnnxModel();
    const { weight } = constants(model, 23);
    const all = Array.from({ length: weights }, () => weight(width, width));
    let y = model.input('x', [rows, width]);
    for (let layer = 0; layer < layers; layer++) y = model.operator('Tanh', [model.operator('MatMul', [y, all[layer % weights]])]);
    model.output('y', y, [rows, width]);
    return { bytes: model.encode(), shape: [rows, width] };
  };
}

export const models = {
  '20us': network({ rows: 4, width: 128, layers: 10 }),
  '200us': network({ rows: 16, width: 256, layers: 8 }),
  '2ms': network({ rows: 64, width: 512, layers: 6 }),
  '20ms': network({ rows: 128, width: 768, layers: 13, weights: 4 }),
  '100ms': network({ rows: 256, width: 1024, layers: 18, weights: 3 }),
};
