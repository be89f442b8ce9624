'use strict';

// The conformance vectors in the folder that WEBNN_VECTORS names, from script down to the kernels and back.

const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');
const { ml } = require('..');
const corrections = require('../tests/vectors/corrections.json');
const { run } = require('./vectors/run.js');

const folder = process.env.WEBNN_VECTORS;

// `.ci/run` names one; the vectors are not part of this repository.
if (!folder) {
  test.skip('WEBNN_VECTORS names no folder of conformance vectors: nothing is tested', () => {});
} else {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  // A wrong folder is not a success.
  test(`${folder} has vectors`, () => expect(files).not.toHaveLength(0));
  for (const file of files) testFile(file);
}

function testFile(file) {
  describe(path.basename(file, '.json'), () => {
    let context;
    beforeAll(async () => {
      context = await ml.createContext({ accelerated: false });
    });
    afterAll(() => context.destroy());
    for (const vector of JSON.parse(readFileSync(path.join(folder, file), 'utf8'))) {
      for (const { case: name, output, index, value } of corrections) {
        if (name === vector.name) vector.graph.expectedOutputs[output].data[index] = value;
      }
      test(vector.name, () => run(context, vector));
    }
  });
}
