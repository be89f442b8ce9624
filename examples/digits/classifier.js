// @ts-check
'use strict';

const { buildNetwork, CLASSES, LARGEST_PIXEL, SIDE } = require('./network');

/**
 * @typedef {(pixels: Uint8Array) => Promise<Float32Array>} Classify
 * Takes the pixels (0 to 16) of one batch of 8x8 images and gives ten
 * probabilities for each image.
 */

/**
 * Builds the network for a batch size, with its tensors.
 *
 * @param {import('../..').MLContext} context
 * @param {Record<string, import('./safetensors').Tensor>} weights
 * @param {number} batchSize
 * @returns {Promise<Classify>}
 */
async function createClassifier(context, weights, batchSize) {
  const graph = await buildNetwork(context, weights, batchSize);
  const images = await context.createTensor({
    dataType: 'float32',
    shape: [batchSize, 1, SIDE, SIDE],
    writable: true,
  });
  const probabilities = await context.createTensor({
    dataType: 'float32',
    shape: [batchSize, CLASSES],
    readable: true,
  });

  return async (pixels) => {
    context.writeTensor(
      images,
      Float32Array.from(pixels, (value) => value / LARGEST_PIXEL),
    );
    context.dispatch(graph, { images }, { probabilities });
    return new Float32Array(await context.readTensor(probabilities));
  };
}

/**
 * The digits of one image with their probabilities, likeliest first.
 *
 * @param {Float32Array} probabilities the results of a batch
 * @param {number} [index] which image of the batch
 */
function ranking(probabilities, index = 0) {
  const own = probabilities.subarray(index * CLASSES, (index + 1) * CLASSES);
  return Array.from(own, (probability, digit) => ({ digit, probability })).sort(
    (a, b) => b.probability - a.probability,
  );
}

module.exports = { createClassifier, ranking };
