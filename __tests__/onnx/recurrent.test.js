'use strict';

// LSTM, GRU and RNN with all their options, beside onnxruntime-node.

const { c, testCases, x } = require('./compare.js');

const float = (value) => ({ float: value });
const [steps, batches, width, units] = [4, 2, 3, 5];
const gates = { LSTM: 4, GRU: 3, RNN: 1 };

/** A network with the inputs that are named. */
function network(op, attributes, { bias, lengths, states, peepholes, opset, outputs } = {}) {
  const directions = attributes.direction === 'bidirectional' ? 2 : 1;
  const count = gates[op] * units;
  const swap = (a, b) => (attributes.layout ? [b, a] : [a, b]);
  const state = states ? x([...swap(directions, batches), units]) : null;
  const inputs = [
    x([...swap(steps, batches), width]),
    c([directions, count, width]),
    c([directions, count, units]),
    bias ? c([directions, 2 * count]) : null,
    lengths ? x([batches], { type: 'int32', values: lengths }) : null,
    state,
    ...(op === 'LSTM' ? [state, peepholes ? c([directions, 3 * units]) : null] : []),
  ];
  while (inputs.at(-1) === null) inputs.pop();
  return { op, opset: opset ?? 14, attributes: { hidden_size: units, ...attributes }, inputs, outputs: outputs ?? (op === 'LSTM' ? 3 : 2), tolerance: 2e-5 };
}

const all = Object.keys(gates);
const each = (attributes, options) => all.map((op) => network(op, attributes, options));

testCases([
  ...each({}),
  ...each({}, { bias: true, states: true, opset: 7 }),
  ...each({ direction: 'reverse' }, { bias: true }),
  ...each({ direction: 'bidirectional' }, { bias: true, states: true }),
  ...each({ clip: float(0.3) }, { bias: true, states: true }),
  ...each({}, { bias: true, states: true, lengths: [4, 2] }),
  ...each({ direction: 'reverse' }, { bias: true, lengths: [1, 3] }),
  ...each({ direction: 'bidirectional' }, { bias: true, states: true, lengths: [2, 4] }),
  // By WebNN's own operators, and (with a cell state that is asked for, clipped, of an RNN) step by step.
  network('LSTM', {}, { bias: true, states: true, lengths: [4, 1], outputs: 2 }),
  network('LSTM', { direction: 'reverse' }, { bias: true, states: true, lengths: [2, 3], outputs: 1 }),
  network('LSTM', { direction: 'bidirectional' }, { states: true, lengths: [3, 4], outputs: 2 }),
  network('LSTM', { direction: 'bidirectional' }, { bias: true, peepholes: true, lengths: [3, 2], outputs: 2 }),
  network('GRU', { linear_before_reset: 1, direction: 'bidirectional' }, { bias: true, states: true, lengths: [1, 4] }),
  network('GRU', { direction: 'bidirectional', activations: ['Sigmoid', 'Tanh', 'Sigmoid', 'Relu'] }, { bias: true, lengths: [3, 1] }),
  network('GRU', { clip: float(0.3) }, { bias: true, lengths: [3, 1] }),
  network('LSTM', {}, { bias: true, peepholes: true }),
  network('LSTM', { direction: 'bidirectional' }, { bias: true, peepholes: true, states: true }),
  network('LSTM', { input_forget: 1 }, { bias: true }),
  network('LSTM', { activations: ['HardSigmoid', 'Softsign', 'Relu'], activation_alpha: { floats: [0.3] }, activation_beta: { floats: [0.4] } }, { bias: true }),
  network('LSTM', { direction: 'bidirectional', activations: ['Sigmoid', 'Tanh', 'Tanh', 'Sigmoid', 'Relu', 'Tanh'] }),
  network('GRU', { linear_before_reset: 1 }, { bias: true, states: true }),
  network('GRU', { linear_before_reset: 1, clip: float(0.4) }, { bias: true, states: true }),
  network('GRU', { activations: ['Sigmoid', 'Elu'], activation_alpha: { floats: [0.7] } }, { bias: true }),
  network('RNN', { activations: ['Relu'] }, { bias: true }),
  network('RNN', { activations: ['LeakyRelu'], activation_alpha: { floats: [0.2] } }, { bias: true }),
  network('RNN', { activations: ['Affine'], activation_alpha: { floats: [0.2] }, activation_beta: { floats: [0.3] } }),
]);
