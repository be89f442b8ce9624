'use strict';

// A model of texts whose numbers are small integers: of each token, and the sum over the text, which a mask hides padding from. Every sum is exact,
// so results are compared to the bit, also those of texts that were joined with longer ones.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { tensor, writeModel } = require('../onnx/write.js');
const { generator } = require('./random.js');

const TOKENS = 50;
const WIDTH = 64;
const OUT = 8;

const integers = (seed, length) => {
  const random = generator(seed);
  return Float32Array.from({ length }, () => random(5) - 2);
};

const TABLE = integers(20, TOKENS * WIDTH);
const WEIGHTS = integers(21, WIDTH * OUT);
/** What a token becomes. */
const VALUES = Array.from({ length: TOKENS }, (_, token) => Float64Array.from({ length: OUT }, (_element, k) => valueOf(token, k)));

function valueOf(token, k) {
  let sum = 0;
  for (let i = 0; i < WIDTH; i++) sum += TABLE[token * WIDTH + i] * WEIGHTS[i * OUT + k];
  return Math.max(sum, 0);
}

/** Writes the model to a folder. @returns {string} the file */
function writeTexts(folder) {
  const file = path.join(folder, 'texts.onnx');
  const shape = ['texts', 'tokens'];
  const model = writeModel({
    opset: 21,
    inputs: [{ name: 'ids', type: 'int64', shape }, { name: 'mask', type: 'float', shape }],
    outputs: [{ name: 'each' }, { name: 'sum' }],
    nodes: [
      { op: 'Gather', inputs: ['table', 'ids'], outputs: ['embedded'] },
      { op: 'MatMul', inputs: ['embedded', 'weights'], outputs: ['product'] },
      { op: 'Relu', inputs: ['product'], outputs: ['each'] },
      { op: 'Unsqueeze', inputs: ['mask', 'last'], outputs: ['factor'] },
      { op: 'Mul', inputs: ['each', 'factor'], outputs: ['masked'] },
      { op: 'ReduceSum', inputs: ['masked', 'along'], outputs: ['sum'], attributes: { keepdims: 0 } },
    ],
    initializers: [
      tensor('table', 'float', [TOKENS, WIDTH], TABLE),
      tensor('weights', 'float', [WIDTH, OUT], WEIGHTS),
      tensor('last', 'int64', [1], BigInt64Array.of(2n)),
      tensor('along', 'int64', [1], BigInt64Array.of(1n)),
    ],
  });
  fs.writeFileSync(file, model);
  return file;
}

function tokens(seed, length) {
  const random = generator(seed);
  return Array.from({ length }, () => random(TOKENS));
}

/** A text of so many tokens. */
function feedText(seed, length) {
  const shape = [1, length];
  const ids = BigInt64Array.from(tokens(seed, length), BigInt);
  return { ids: { dataType: 'int64', shape, data: ids }, mask: { dataType: 'float32', shape, data: new Float32Array(length).fill(1) } };
}

/** Compares the outputs of a run of {@link feedText}. */
function checkText(seed, length, { each, sum }) {
  const expected = tokens(seed, length).map((token) => VALUES[token]);
  assert.deepStrictEqual([each.shape, sum.shape].map((shape) => [...shape]), [[1, length, OUT], [1, OUT]]);
  assert.deepStrictEqual(Array.from(each.data), expected.flatMap((values) => [...values]));
  assert.deepStrictEqual(Array.from(sum.data), Array.from({ length: OUT }, (_, k) => expected.reduce((all, values) => all + values[k], 0)));
}

module.exports = { checkText, feedText, writeTexts };
