'use strict';

// A folder of models for the tests of the server.

const fs = require('node:fs');
const path = require('node:path');
const { tensor, writeModel } = require('../onnx/write.js');

const float = (name, ...shape) => ({ name, type: 'float', shape });
/** Applies an operator to x twice. */
const twice = (op) => writeModel({ opset: 17, inputs: [float('x', 'n', 2)], outputs: [float('y', 'n', 2)], nodes: [{ op, inputs: ['x', 'x'], outputs: ['y'] }] });

/** Gives what it is given. */
const same = (type) => writeModel({ opset: 21, inputs: [{ name: 'x', type, shape: ['n'] }], outputs: [{ name: 'y', type, shape: ['n'] }], nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }] });

/** Takes some tenths of a second: products of matrices, one after the other. */
function slow() {
  const size = 1024;
  const weights = tensor('w', 'float', [size, size], new Float32Array(size * size).fill(1e-3));
  const nodes = [{ op: 'Expand', inputs: ['x', 'shape'], outputs: ['m0'] }];
  const count = 12;
  for (let i = 0; i < count; i++) nodes.push({ op: 'MatMul', inputs: [`m${i}`, 'w'], outputs: [`m${i + 1}`] });
  nodes.push({ op: 'ReduceSum', inputs: [`m${count}`], outputs: ['y'], attributes: { keepdims: 0 } });
  const shape = tensor('shape', 'int64', [2], BigInt64Array.of(1024n, 1024n));
  return writeModel({ opset: 17, inputs: [float('x', 1, 1)], outputs: [float('y')], nodes, initializers: [weights, shape] });
}

/** Computes rows apart, and takes longer than a request needs to arrive. */
function dense() {
  const size = 1024;
  const weights = tensor('w', 'float', [size, size], new Float32Array(size * size).fill(1 / size));
  const nodes = [{ op: 'Expand', inputs: ['x', 'shape'], outputs: ['m0'] }];
  const count = 8;
  for (let i = 0; i < count; i++) nodes.push({ op: 'MatMul', inputs: [`m${i}`, 'w'], outputs: [`m${i + 1}`] });
  nodes.push({ op: 'ReduceMean', inputs: [`m${count}`], outputs: ['y'], attributes: { axes: [1], keepdims: 1 } });
  const shape = tensor('shape', 'int64', [2], BigInt64Array.of(1n, 1024n));
  return writeModel({ opset: 17, inputs: [float('x', 'n', 1)], outputs: [float('y', 'n', 1)], nodes, initializers: [weights, shape] });
}

const types = ['bool', 'uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float', 'double', 'int4', 'uint4'];

function fill(folder) {
  fs.writeFileSync(path.join(folder, 'double.onnx'), twice('Add'));
  for (const [version, op] of [['1', 'Add'], ['2', 'Mul'], ['10', 'Sub']]) {
    fs.mkdirSync(path.join(folder, 'versions', version), { recursive: true });
    fs.writeFileSync(path.join(folder, 'versions', version, 'model.onnx'), twice(op));
  }
  const nodes = ['Add', 'Mul'].map((op, i) => ({ op, inputs: ['x', 'x'], outputs: [['sum', 'product'][i]] }));
  fs.writeFileSync(path.join(folder, 'two.onnx'), writeModel({ opset: 17, inputs: [float('x', 'n', 2)], outputs: [float('sum', 'n', 2), float('product', 'n', 2)], nodes }));
  fs.writeFileSync(path.join(folder, 'slow.onnx'), slow());
  fs.writeFileSync(path.join(folder, 'dense.onnx'), dense());
  for (const type of types) fs.writeFileSync(path.join(folder, `same-${type}.onnx`), same(type));
}

module.exports = { fill, slow, twice };
