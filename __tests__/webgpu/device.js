'use strict';

// Devices for tests on a real WebGPU (environment.js).

const { ml } = require('../..');

const { adapter, why } = globalThis.webgpu;

/** Whether the adapter computes on the CPU; SwiftShader does. */
const isSoftware = adapter !== undefined && (adapter.info.isFallbackAdapter || /swiftshader/i.test(adapter.info.architecture));

if (!adapter) console.info(`WebGPU is not tested: ${why}`);

/** Of the file, and of the test that runs: drivers of hardware give a process some dozens of devices (NVIDIA's 64). */
const opened = [];
let ofTest;
beforeEach(() => {
  ofTest = [];
});

/** A device that ends with the test, or with those of the file where none runs. An adapter gives one device. */
async function newDevice(descriptor = {}) {
  const fresh = await globalThis.webgpu.gpu.requestAdapter();
  const device = await fresh.requestDevice(descriptor);
  device.onuncapturederror = ({ error }) => uncaptured.push(error.message);
  (ofTest ?? opened).push(device);
  return device;
}

/** Errors of devices that nobody looked for. */
const uncaptured = [];

async function newContext(descriptor) {
  const device = await newDevice(descriptor);
  return { device, context: await ml.createContext(device) };
}

/** A test with a device; where there is none it passes, which was said. */
function onDevice(name, body, timeout = undefined) {
  test(name, async () => {
    if (adapter) await body();
  }, timeout);
}

afterEach(() => {
  for (const device of ofTest) device.destroy();
  ofTest = undefined;
  expect(uncaptured.splice(0)).toEqual([]);
});
afterAll(() => opened.forEach((device) => device.destroy()));

module.exports = { adapter, isSoftware, newContext, newDevice, onDevice };
