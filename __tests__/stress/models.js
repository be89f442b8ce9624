'use strict';

// Models whose numbers are small integers: every sum is exact, in whatever order and with whatever kernel it is computed, so that results
// are compared to the bit.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { tensor, writeModel } = require('../onnx/write.js');
const { generator } = require('./random.js');

const WIDTH = 256;
const INNER = 512;
const OUT = 8;

/** Integers from -2 to 2. */
const integers = (seed, length) => {
  const random = generator(seed);
  return Float32Array.from({ length }, () => random(5) - 2);
};

/** Four models for any number of rows; the first two, and the last two, have their large constant in common. */
const MODELS = [1, 1, 2, 2].map((large, i) => ({ name: `model-${i}`, a: integers(large, WIDTH * INNER), b: integers(10 + i, INNER * OUT) }));

/** Writes the models to a folder. @returns {string[]} the files */
function writeModels(folder) {
  return MODELS.map(({ name, a, b }) => {
    const file = path.join(folder, `${name}.onnx`);
    const model = writeModel({
      opset: 21,
      inputs: [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }],
      outputs: [{ name: 'y' }],
      nodes: [{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['v'] }, { op: 'Relu', inputs: ['v'], outputs: ['r'] }, { op: 'MatMul', inputs: ['r', 'b'], outputs: ['y'] }],
      initializers: [tensor('a', 'float', [WIDTH, INNER], a), tensor('b', 'float', [INNER, OUT], b)],
    });
    fs.writeFileSync(file, model);
    return file;
  });
}

/** A row by its seed: mostly zeros, so that what is expected is quickly computed. */
function row(seed) {
  const random = generator(seed);
  const x = new Float32Array(WIDTH);
  for (let i = 0; i < 6; i++) x[random(WIDTH)] = random(7) - 3;
  return x;
}

function expectedRow({ a, b }, x) {
  const v = new Float64Array(INNER);
  x.forEach((factor, i) => {
    if (factor !== 0) for (let j = 0; j < INNER; j++) v[j] += factor * a[i * INNER + j];
  });
  const y = new Float64Array(OUT);
  v.forEach((sum, j) => {
    if (sum > 0) for (let k = 0; k < OUT; k++) y[k] += sum * b[j * OUT + k];
  });
  return y;
}

/** Inputs of so many rows. */
function feeds(seed, rows) {
  const data = new Float32Array(rows * WIDTH);
  for (let i = 0; i < rows; i++) data.set(row(seed + i), i * WIDTH);
  return { x: { type: 'float32', shape: [rows, WIDTH], data } };
}

/** Compares the outputs of a run of {@link feeds}. */
function check(model, seed, rows, { y }) {
  assert.deepStrictEqual([...y.shape], [rows, OUT]);
  for (let i = 0; i < rows; i++) {
    const found = Array.from(y.data.subarray(i * OUT, (i + 1) * OUT), (x) => x + 0);
    assert.deepStrictEqual(found, Array.from(expectedRow(MODELS[model], row(seed + i)), (x) => x + 0));
  }
}

module.exports = { MODELS, check, feeds, writeModels };
