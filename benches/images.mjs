// Images of twenty sizes for a convolutional network.
import { convolutional } from './onnx/convolutional.mjs';
import { generator } from './onnx/seeded.mjs';
import { enginesFor } from './shapes.mjs';

const SIZES = Array.from({ length: 20 }, (_, i) => [96 + 16 * i, 128 + 8 * ((i * 7) % 20)]);

/** So many images of each of the sizes that are chosen. */
export function images(choose, times) {
  return enginesFor(convolutional, (run, isQuick) => {
    const sizes = choose(isQuick ? SIZES.slice(0, 2) : SIZES);
    const random = generator(3);
    const noise = Float32Array.from({ length: 3 * 512 * 512 }, () => random());
    const feeds = ([height, width]) => ({ image: ['float32', noise.slice(0, 3 * height * width), [1, 3, height, width]] });
    return {
      sequence: async () => {
        for (let i = 0; i < times; i++) for (const size of sizes) await run(feeds(size));
      },
      answers: async () => (await run(feeds(sizes[0]))).classes,
    };
  });
}
