'use strict';

// Some conformance vectors of each operator.

const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { ml } = require('../..');
const corrections = require('../../tests/vectors/corrections.json');
const { run } = require('../vectors/run.js');

const folder = process.env.WEBNN_VECTORS;
const MOST = process.env.WEBNN_SWEEP === 'all' ? Infinity : 6;

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
for (const file of folder ? readdirSync(folder).filter((name) => name.endsWith('.json')) : []) {
  const vectors = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
  const step = Math.max(1, vectors.length / MOST);
  for (let at = 0; at < vectors.length; at += step) {
    const vector = vectors[Math.floor(at)];
    for (const { case: name, output, index, value } of corrections) {
      if (name === vector.name) vector.graph.expectedOutputs[output].data[index] = value;
    }
    test(vector.name, () => run(context, vector));
  }
}
