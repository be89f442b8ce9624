/** @jest-environment ./__tests__/environments/of-a-browser.js */
'use strict';

// The small suite where the global object is not Node's.

const { suite } = require('./environments/suite.js');

test('this is the environment', () => {
  expect(globalThis.structuredClone).toBeUndefined();
});

suite(require('..'), require('../lib/onnx.js'), { afterAll, beforeAll, describe, expect, test });
