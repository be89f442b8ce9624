'use strict';

// The models of these tests.

const { TYPES, tensor, writeModel } = require('../onnx/write.js');

const value = (name, type, ...shape) => ({ name, type, shape });

/** `c = a + b`, `d = a * b`, of any number of rows. */
const sums = writeModel({
  opset: 17,
  inputs: [value('a', 'float', 'n', 3), value('b', 'float', 'n', 3)],
  outputs: [value('c', 'float', 'n', 3), value('d', 'float', 'n', 3)],
  nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['c'] }, { op: 'Mul', inputs: ['a', 'b'], outputs: ['d'] }],
});

/** `y = x` of one type. */
const identity = (type, opset = 21) =>
  writeModel({ opset, inputs: [value('x', type, 1, 5)], outputs: [value('y', type, 1, 5)], nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }] });

/** One node with one output, of which nothing is declared unless it is said. */
const single = ({ op, opset = 17, inputs, output = { name: 'y' }, attributes, initializers = [] }) =>
  writeModel({
    opset,
    inputs,
    outputs: [output],
    nodes: [{ op, inputs: [...inputs, ...initializers].map(({ name }) => name), outputs: ['y'], attributes }],
    initializers,
  });

module.exports = { TYPES, identity, single, sums, tensor, value, writeModel };
