'use strict';

// Checks the tensors that dispatch() gets for the inputs and outputs of a graph.

const { typeError } = require('./errors.js');
const { quote } = require('./show.js');
const { isDestroyed } = require('./tensor.js');
const { isExported } = require('./webgpu/sharing.js');

// Below this many, comparing all pairs is faster than making a set.
const FEW = 16;

/**
 * @param {string} operator
 * @param {string} label
 * @param {import('./states').ContextState} context
 * @param {import('./states').GraphState} graph
 * @param {import('./states').Named<import('./states').TensorState>} inputs
 * @param {import('./states').Named<import('./states').TensorState>} outputs
 * @returns {number[]} handles: the inputs in the graph's order, then the outputs
 */
function bindTensors(operator, label, context, graph, inputs, outputs) {
  const twice = firstDuplicate(inputs.values, outputs.values);
  if (twice >= 0) throw wrong(operator, label, inputs, outputs, twice, 'that already stands for another name', 'a different MLTensor for each name');
  const count = inputs.values.length;
  const all = count + outputs.values.length;
  for (let i = 0; i < all; i++) {
    const tensor = i < count ? inputs.values[i] : outputs.values[i - count];
    if (tensor.context !== context) throw wrong(operator, label, inputs, outputs, i, 'of another MLContext', 'one that was created by this one');
    if (isDestroyed(tensor)) throw wrong(operator, label, inputs, outputs, i, 'that was destroyed', 'one that still exists');
    if (isExported(tensor)) throw wrong(operator, label, inputs, outputs, i, 'that is exported to WebGPU', 'one whose buffer was given back');
  }
  const handles = new Array(graph.inputs.size + graph.outputs.size);
  bind(operator, label, 'inputs', inputs, graph.inputs, handles, 0);
  bind(operator, label, 'outputs', outputs, graph.outputs, handles, graph.inputs.size);
  return handles;
}

/** "Validate tensors with descriptors". */
function bind(operator, label, argument, named, descriptors, handles, from) {
  const { names, values } = named;
  if (names.length !== descriptors.size) {
    throw typeError(operator, label, `${argument}: found ${list(names)}, allowed exactly the graph's ${list([...descriptors.keys()])}`);
  }
  for (let i = 0; i < names.length; i++) {
    const tensor = values[i];
    if (tensor.constant) throw typeError(operator, label, `${argument}: ${quote(names[i])}: found a constant MLTensor, allowed one made by createTensor()`);
    const descriptor = descriptors.get(names[i]);
    if (descriptor === undefined) {
      throw typeError(operator, label, `${argument}: found the name ${quote(names[i])}, allowed the graph's ${list([...descriptors.keys()])}`);
    }
    if (tensor.dataType !== descriptor.dataType || !sameShape(tensor.shape, descriptor.shape)) {
      throw typeError(operator, label, `${argument}: ${quote(names[i])}: found an MLTensor of ${tensor.buffer.text}, allowed ${descriptor.text}`);
    }
    handles[from + descriptor.position] = tensor.handle;
  }
}

function sameShape(a, b) {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** The position of a tensor that came before, over both lists; -1 if all differ. */
function firstDuplicate(inputs, outputs) {
  const all = inputs.length + outputs.length;
  if (all > FEW) {
    const seen = new Set();
    for (let i = 0; i < all; i++) {
      const tensor = i < inputs.length ? inputs[i] : outputs[i - inputs.length];
      if (seen.has(tensor)) return i;
      seen.add(tensor);
    }
    return -1;
  }
  for (let i = 1; i < all; i++) {
    const tensor = i < inputs.length ? inputs[i] : outputs[i - inputs.length];
    for (let k = 0; k < i; k++) {
      if (tensor === (k < inputs.length ? inputs[k] : outputs[k - inputs.length])) return i;
    }
  }
  return -1;
}

function wrong(operator, label, inputs, outputs, position, found, allowed) {
  const isInput = position < inputs.names.length;
  const name = isInput ? inputs.names[position] : outputs.names[position - inputs.names.length];
  return typeError(operator, label, `${isInput ? 'inputs' : 'outputs'}: ${quote(name)}: found an MLTensor ${found}, allowed ${allowed}`);
}

function list(names) {
  return names.length === 0 ? 'no name' : names.map(quote).join(', ');
}

module.exports = { bindTensors };
