'use strict';

// A model of four products, one after the other, with 1 MiB of weights each.

const { tensor, writeModel } = require('./write.js');

const WIDTH = 512;

/** Its bytes. The input is `x`, a row of {@link WIDTH} numbers. */
function fourProducts() {
  const names = ['w0', 'w1', 'w2', 'w3'];
  const weights = (i) => Float32Array.from({ length: WIDTH * WIDTH }, (_, k) => Math.sin(k + i) / WIDTH);
  const initializers = names.map((name, i) => tensor(name, 'float', [WIDTH, WIDTH], weights(i)));
  const nodes = names.map((name, i) => ({ op: 'MatMul', inputs: [i === 0 ? 'x' : `v${i}`, name], outputs: [i === 3 ? 'y' : `v${i + 1}`] }));
  return writeModel({ opset: 21, inputs: [{ name: 'x', type: 'float', shape: [1, WIDTH] }], outputs: [{ name: 'y' }], nodes, initializers });
}

module.exports = { WIDTH, fourProducts };
