'use strict';

// F1: limits of a device, which whoever made its object decides.

const { ml, MLGraphBuilder } = require('../..');
const { float32 } = require('../adder.js');
const { notingDevice } = require('./noting-device.js');

const LIMITS = [
  ...['maxStorageBufferBindingSize', 'maxBufferSize', 'maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupsPerDimension'],
  'maxComputeWorkgroupStorageSize',
];

function deviceWith(name, limit) {
  const { device } = notingDevice();
  device.limits[name] = limit;
  return device;
}

test.each(LIMITS)('%s that is no number from 1 is refused', async (name) => {
  for (const [limit, text] of [[undefined, 'undefined'], [null, 'null'], [0, '0'], [-1, '-1'], [NaN, 'NaN'], [0.5, '0.5'], ['8', "'8'"], [8n, '8']]) {
    const message = new RegExp(`^createContext: gpuDevice: limits: ${name}: found ${text}\\w*, allowed a number from 1$`);
    await expect(ml.createContext(deviceWith(name, limit))).rejects.toThrow(expect.objectContaining({ name: 'TypeError', message: expect.stringMatching(message) }));
  }
});

const GRAPHS = {
  matmul: (b) => b.matmul(b.input('a', float32(64, 64)), b.input('b', float32(64, 64))),
  conv2d: (b) => b.conv2d(b.input('a', float32(1, 8, 32, 32)), b.constant(float32(16, 8, 3, 3), new Float32Array(1152))),
  softmax: (b) => b.softmax(b.input('a', float32(8, 1000)), 1),
  reduceSum: (b) => b.reduceSum(b.input('a', float32(100, 1000))),
  layerNormalization: (b) => b.layerNormalization(b.input('a', float32(8, 512)), { axes: [1] }),
  concat: (b) => b.concat(Array.from({ length: 20 }, (_, i) => b.input(`a${i}`, float32(2, 3))), 0),
  gather: (b) => b.gather(b.input('a', float32(100, 8)), b.input('i', { dataType: 'int32', shape: [5] })),
  cumulativeSum: (b) => b.cumulativeSum(b.input('a', float32(100, 80)), 1),
  maxPool2d: (b) => b.maxPool2d(b.input('a', float32(1, 4, 32, 32)), { windowDimensions: [3, 3] }),
  relu: (b) => b.relu(b.input('a', { dataType: 'float16', shape: [33, 7] })),
};

test.each(LIMITS)('with any %s graphs are built, or refused for their tensors', async (name) => {
  for (const limit of [1, 1.5, 2, 3, 7, 64, 255, 1000, 65536, 2 ** 53, 1e300, Infinity]) {
    const context = await ml.createContext(deviceWith(name, limit));
    for (const make of Object.values(GRAPHS)) {
      try {
        const builder = new MLGraphBuilder(context);
        await builder.build({ y: make(builder) });
      } catch ({ message }) {
        expect(message).toMatch(/allowed|tensors are|memory|bytes/);
      }
    }
    context.destroy();
  }
});
