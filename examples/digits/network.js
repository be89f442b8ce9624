// @ts-check
'use strict';

const { MLGraphBuilder } = require('../..');

/** Pixel values run from 0 (paper) to 16 (ink); the network takes 0 to 1. */
const LARGEST_PIXEL = 16;
const SIDE = 8;
const PIXELS = SIDE * SIDE;
const CLASSES = 10;

/**
 * Builds the graph that train.py trained:
 * conv 3x3, 16 channels -> relu -> conv 3x3, 32 channels -> relu
 * -> max pooling 2x2 -> dense 64 -> relu -> dense 10 -> softmax.
 *
 * @param {import('../..').MLContext} context
 * @param {Record<string, import('./safetensors').Tensor>} weights
 * @param {number} batchSize images per dispatch
 * @returns {Promise<import('../..').MLGraph>} input `images` [n, 1, 8, 8], output `probabilities` [n, 10]
 */
async function buildNetwork(context, weights, batchSize) {
  const builder = new MLGraphBuilder(context);

  /** @param {string} name */
  const constant = (name) => {
    const { shape, data } = weights[name];
    return builder.constant({ dataType: 'float32', shape }, /** @type {Float32Array<ArrayBuffer>} */ (data));
  };

  /**
   * @param {import('../..').MLOperand} input
   * @param {string} name
   */
  const convolution = (input, name) =>
    builder.conv2d(input, constant(`${name}.weight`), {
      padding: [1, 1, 1, 1],
      bias: constant(`${name}.bias`),
    });

  /**
   * @param {import('../..').MLOperand} input
   * @param {string} name
   */
  const dense = (input, name) => builder.gemm(input, constant(`${name}.weight`), { c: constant(`${name}.bias`) });

  const images = builder.input('images', { dataType: 'float32', shape: [batchSize, 1, SIDE, SIDE] });
  const features1 = builder.relu(convolution(images, 'conv1'));
  const features2 = builder.relu(convolution(features1, 'conv2'));
  const pooled = builder.maxPool2d(features2, { windowDimensions: [2, 2], strides: [2, 2] });
  const flat = builder.reshape(pooled, [batchSize, weights['dense1.weight'].shape[0]]);
  const hidden = builder.relu(dense(flat, 'dense1'));
  const probabilities = builder.softmax(dense(hidden, 'dense2'), 1);

  return builder.build({ probabilities });
}

module.exports = { buildNetwork, CLASSES, LARGEST_PIXEL, PIXELS, SIDE };
