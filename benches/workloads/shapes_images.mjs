// Images of twenty sizes for a convolutional network, four of each.
import { convolutional } from '../onnx/convolutional.mjs';
import { generator } from '../onnx/seeded.mjs';
import { enginesFor } from '../shapes.mjs';

export const metrics = { sequence: 'four runs at each of 20 sizes from 96 x 128 to 400 x 300, all plans made on the way' };
export const once = ['sequence'];

export const engines = enginesFor(convolutional, (run, isQuick) => {
  const sizes = Array.from({ length: isQuick ? 2 : 20 }, (_, i) => [96 + 16 * i, 128 + 8 * ((i * 7) % 20)]);
  const random = generator(3);
  const noise = Float32Array.from({ length: 3 * 512 * 512 }, () => random());
  const feeds = ([height, width]) => ({ image: ['float32', noise.slice(0, 3 * height * width), [1, 3, height, width]] });
  return {
    sequence: async () => {
      for (let i = 0; i < 4; i++) for (const size of sizes) await run(feeds(size));
    },
    answers: async () => (await run(feeds([96, 96]))).classes,
  };
});
