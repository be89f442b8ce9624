'use strict';

// node outcomes.js PACKAGE: what every row gives with a package, as JSON. A process of its own, since onnxruntime-node's arrays are of
// Node's own realm, which is not that of jest's tests.

const { rows } = require('./rows.js');

console.warn = () => {};

(async () => {
  const ort = require(process.argv[2]);
  const outcomes = {};
  for (const [name, row] of Object.entries(rows)) {
    try {
      outcomes[name] = { value: await row(ort) };
    } catch (error) {
      outcomes[name] = { error: error.name, message: error.message };
    }
  }
  process.stdout.write(JSON.stringify(outcomes));
})();
