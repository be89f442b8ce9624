/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// The conformance vectors through a context on Dawn's device, so that Dawn compiles the shaders of every operator. Without
// WEBNN_SWEEP=all only some of each operator's, spread over them.

const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');
const corrections = require('../../tests/vectors/corrections.json');
const { run } = require('../vectors/run.js');
const { requiredFeatures } = require('../../lib/webgpu.js');
const { adapter, newContext, onDevice } = require('./device.js');

const folder = process.env.WEBNN_VECTORS;
const MOST = process.env.WEBNN_SWEEP === 'all' ? Infinity : 6;

function sample(list) {
  if (list.length <= MOST) return list;
  return Array.from({ length: MOST }, (_, i) => list[Math.floor((i * list.length) / MOST)]);
}

if (!folder) {
  test.skip('WEBNN_VECTORS names no folder of conformance vectors: nothing is tested', () => {});
} else {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  test(`${folder} has vectors`, () => expect(files).not.toHaveLength(0));
  let held;
  beforeAll(async () => {
    if (adapter) held = await newContext({ requiredFeatures: requiredFeatures(adapter) });
  });
  for (const file of files) {
    describe(path.basename(file, '.json'), () => {
      const vectors = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
      for (const vector of sample(vectors)) {
        for (const { case: name, output, index, value } of corrections) {
          if (name === vector.name) vector.graph.expectedOutputs[output].data[index] = value;
        }
        onDevice(vector.name, async () => {
          await run(held.context, vector);
        });
      }
    });
  }
}
