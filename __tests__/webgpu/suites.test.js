/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// The suites of dispatches and command buffers, with contexts on a GPUDevice in the place of others.

const { ml } = require('../..');
const { requiredLimits } = require('../../lib/webgpu.js');
const { adapter, newDevice } = require('./device.js');

const original = ml.createContext;

beforeAll(() => {
  // A context each, as the suites expect; what they ask for is of no matter here.
  ml.createContext = async () => Reflect.apply(original, ml, [await newDevice({ requiredLimits: requiredLimits(adapter) })]);
});
afterAll(() => delete ml.createContext);

if (adapter) {
  require('../dispatch.test.js');
  require('../commands.test.js');
} else {
  test('there is no device', () => {});
}
