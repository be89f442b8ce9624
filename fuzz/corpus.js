'use strict';

// Writes the models of the tests beside onnxruntime-node as the corpus that fuzzing starts from.

const { mkdirSync, readdirSync, writeFileSync } = require('node:fs');
const path = require('node:path');

const tests = path.join(__dirname, '..', '__tests__', 'onnx');
const corpus = path.join(__dirname, 'corpus', 'onnx_import');
mkdirSync(corpus, { recursive: true });

// The test files only define cases; here defining one means writing its model.
const compare = require(path.join(tests, 'compare.js'));
let count = 0;
compare.testCases = (cases) => {
  cases.forEach((item, i) => writeFileSync(path.join(corpus, `${item.op}-${count++}`), compare.prepare(item, i).model));
};
for (const file of readdirSync(tests)) if (file.endsWith('.test.js') && !file.startsWith('model')) require(path.join(tests, file));
console.log(`${count} models in ${corpus}`);
