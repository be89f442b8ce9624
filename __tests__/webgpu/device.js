'use strict';

// Devices for tests on a real WebGPU (environment.js).

const { ml } = require('../..');

const { adapter, why } = globalThis.webgpu;

if (!adapter) console.info(`WebGPU is not tested: ${why}`);

const opened = [];

/** A device that ends with the tests of the file. An adapter gives one device. */
async function newDevice(descriptor = {}) {
  const fresh = await globalThis.webgpu.gpu.requestAdapter();
  const device = await fresh.requestDevice(descriptor);
  device.onuncapturederror = ({ error }) => uncaptured.push(error.message);
  opened.push(device);
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
  expect(uncaptured.splice(0)).toEqual([]);
});
afterAll(() => opened.forEach((device) => device.destroy()));

module.exports = { adapter, newContext, newDevice, onDevice };
