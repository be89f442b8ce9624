'use strict';

// Writes what fuzzing starts from: the models of the tests beside onnxruntime-node, and small caches of generate().

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

// As src/program/decoder/saved.rs has them: numbers of 8 bytes, and tokens of 4.
const caches = path.join(__dirname, 'corpus', 'saved_cache');
mkdirSync(caches, { recursive: true });
const numbers = (...list) => Buffer.from(BigUint64Array.from(list, BigInt).buffer);
const sequence = (tokens, rows) => Buffer.concat([
  numbers(tokens.length, rows.length), Buffer.from(Uint32Array.from(tokens).buffer), numbers(...rows), Buffer.alloc(rows.reduce((sum, row) => sum + row * tokens.length, 0), 5),
]);
const files = [numbers(0, 0), Buffer.concat([numbers(1, 1), sequence([7, 264], [3, 0])]), Buffer.concat([numbers(0, 2), sequence([1], [4, 4]), sequence([1, 2, 3], [4, 4])])];
files.forEach((file, i) => writeFileSync(path.join(caches, `cache-${i}`), file));
console.log(`${files.length} files in ${caches}`);
