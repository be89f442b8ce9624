// The network of examples/digits, one image at a time.
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
import { OnnxModel } from '../onnx/model.mjs';

const require = createRequire(import.meta.url);
const { readSafetensors } = require('../../examples/digits/safetensors.js');
const example = (name) => fileURLToPath(new URL(`../../examples/digits/${name}`, import.meta.url));

const PIXELS = 64;
const LARGEST_PIXEL = 16;
const CLASSES = 10;

export const metrics = { image: 'pixels in, probabilities out' };

export const engines = {
  async 'webnn-node'({ threads }) {
    const { openContext } = await import('../engines/webnn-node.mjs');
    const { buildNetwork } = require('../../examples/digits/network.js');
    const context = await openContext({ threads });
    const graph = await buildNetwork(context, readSafetensors(example('weights.safetensors')), 1);
    const images = await context.createTensor({ dataType: 'float32', shape: [1, 1, 8, 8], writable: true });
    const probabilities = await context.createTensor({ dataType: 'float32', shape: [1, CLASSES], readable: true });

    return image(async (pixels) => {
      context.writeTensor(images, pixels);
      context.dispatch(graph, { images }, { probabilities });
      return new Float32Array(await context.readTensor(probabilities));
    });
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const session = await openSession(onnxModel(), { threads });

    return image(async (pixels) => {
      const { probabilities } = await session.run({ images: new Tensor('float32', pixels, [1, 1, 8, 8]) });
      return probabilities.data;
    });
  },
};

// One sample per image, through the test images in turn.
function image(classify) {
  const images = testImages();
  let next = 0;
  return {
    async image(clock) {
      const pixels = images[next++ % images.length];
      const start = clock();
      await classify(pixels);
      return clock() - start;
    },
    /** What both engines must agree on: the probabilities of some images. */
    async answers() {
      const some = [];
      for (const pixels of images.slice(0, 20)) some.push(...(await classify(pixels)));
      return some;
    },
  };
}

function testImages() {
  const { data } = readSafetensors(example('test-images.safetensors')).images;
  const all = Float32Array.from(data, (value) => value / LARGEST_PIXEL);
  return Array.from({ length: all.length / PIXELS }, (_, i) => all.slice(i * PIXELS, (i + 1) * PIXELS));
}

// The same network as examples/digits/network.js, from the same weights.
function onnxModel() {
  const weights = readSafetensors(example('weights.safetensors'));
  const model = new OnnxModel();
  const constant = (name) => model.constant(name, weights[name].shape, weights[name].data);
  const layer = (kind, input, name, attributes) =>
    model.operator(kind, [input, constant(`${name}.weight`), constant(`${name}.bias`)], attributes);
  const convolution = (input, name) => layer('Conv', input, name, { kernel_shape: [3, 3], pads: [1, 1, 1, 1] });

  const images = model.input('images', [1, 1, 8, 8]);
  const features1 = model.operator('Relu', [convolution(images, 'conv1')]);
  const features2 = model.operator('Relu', [convolution(features1, 'conv2')]);
  const pooled = model.operator('MaxPool', [features2], { kernel_shape: [2, 2], strides: [2, 2] });
  const flat = model.operator('Flatten', [pooled], { axis: 1 });
  const hidden = model.operator('Relu', [layer('Gemm', flat, 'dense1')]);
  model.output('probabilities', model.operator('Softmax', [layer('Gemm', hidden, 'dense2')], { axis: 1 }), [1, CLASSES]);
  return model.encode();
}
