// The small suite under vitest, in every pool and environment of vitest.config.mjs beside this file.
import * as functions from 'vitest';
import webnn from '../../lib/index.mjs';
import onnx from '../../lib/onnx.mjs';
import { suite } from './suite.js';

const { environment, expect, test } = { ...functions, environment: process.env.WEBNN_TEST_ENVIRONMENT };

// An environment that was not set up would make all tests mean less.
test('this is the environment', () => {
  expect(typeof document).toBe(environment === 'node' ? 'undefined' : 'object');
  expect('happyDOM' in globalThis).toBe(environment === 'happy-dom');
});

suite(webnn, onnx, functions);
