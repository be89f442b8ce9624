/** @jest-environment jsdom */
'use strict';

// The small suite in the environment that jest has for pages.

const { suite } = require('./environments/suite.js');

test('this is the environment', () => {
  expect(globalThis.document).toBeDefined();
});

suite(require('..'), require('../lib/onnx.js'), { afterAll, beforeAll, describe, expect, test });
