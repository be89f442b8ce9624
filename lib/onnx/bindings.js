'use strict';

// Tensors bound to a model's inputs and outputs, for people who keep them on the device.

const { invalidState, typeError } = require('../errors.js');
const { construct, expose, illegalUnless } = require('../interface.js');
const { quote, show } = require('../show.js');
const { toTensor } = require('../tensor.js');
const { arrayOver, checkArray } = require('./arrays.js');

let stateOf;

class OnnxBindings {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
  }

  /** The tensors, by the names of the inputs. */
  get inputs() {
    return { ...self(this, 'inputs').inputs };
  }

  get outputs() {
    return { ...self(this, 'outputs').outputs };
  }

  /** Writes an input. */
  write(name, array) {
    const state = self(this, 'write');
    const input = find(state, 'write', state.model.inputs, name);
    checkArray('write', state.label, input, array);
    state.context.writeTensor(state.inputs[name], bytesOf(array));
  }

  /** Reads an output. */
  async read(name) {
    const state = self(this, 'read');
    const output = find(state, 'read', state.model.outputs, name);
    return arrayOver(output.dataType, await state.context.readTensor(state.outputs[name]));
  }

  /** Runs the model on the tensors as they are bound now. */
  dispatch() {
    const state = self(this, 'dispatch');
    if (state.destroyed) throw invalidState('dispatch', state.label, 'the bindings were destroyed');
    state.context.dispatch(state.graph, state.inputs, state.outputs, { label: state.label });
  }

  /** Exchanges an input's tensor with an output's: what a step computed is what the next one starts from. */
  swap(inputName, outputName) {
    const state = self(this, 'swap');
    const input = find(state, 'swap', state.model.inputs, inputName);
    const output = find(state, 'swap', state.model.outputs, outputName);
    if (input.dataType !== output.dataType || `${input.shape}` !== `${output.shape}`) {
      throw typeError('swap', state.label, `found ${text(input)} and ${text(output)}, allowed an input and an output of one data type and shape`);
    }
    const { inputs, outputs } = state;
    [inputs[inputName], outputs[outputName]] = [outputs[outputName], inputs[inputName]];
  }

  /** Destroys the tensors that were made for these bindings; those that were given stay. */
  destroy() {
    const state = self(this, 'destroy');
    if (state.destroyed) return;
    state.destroyed = true;
    for (const tensor of state.own) tensor.destroy();
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(OnnxBindings, stateOf);

function self(value, member) {
  const state = stateOf(value);
  if (state === undefined) throw new TypeError(`OnnxBindings.${member}: 'this': found ${show(value)}, allowed an OnnxBindings`);
  return state;
}

function find({ label }, operator, list, name) {
  const found = list.find((candidate) => candidate.name === name && candidate.used !== false);
  if (found === undefined) {
    throw typeError(operator, label, `name: found ${show(name)}, allowed ${list.map((candidate) => quote(candidate.name)).join(', ')}`);
  }
  return found;
}

function text({ name, dataType, shape }) {
  return `${quote(name)} of ${dataType}[${shape.join(', ')}]`;
}

/** Bytes, so that arrays which only we take pass the check of writeTensor(). */
function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/**
 * Binds the tensors that are given, and makes the others.
 * @param {object} model state of the model
 * @param {{inputs?: object, outputs?: object}} given
 */
async function createBindings(model, { inputs: givenInputs = {}, outputs: givenOutputs = {} }) {
  const { context, graph, label } = model;
  const own = [];
  const bind = async (argument, signatures, given, descriptor) => {
    const known = new Set(signatures.map(({ name }) => name));
    const unknown = Object.keys(given).find((name) => !known.has(name));
    if (unknown !== undefined) {
      throw typeError('createBindings', label, `${argument}: found ${quote(unknown)}, allowed ${[...known].map(quote).join(', ') || 'no name'}`);
    }
    const made = signatures.map(async (signature) => {
      const { name, dataType, shape } = signature;
      if (!Object.hasOwn(given, name) || given[name] === undefined) {
        const tensor = await context.createTensor({ dataType, shape, ...descriptor, label: name });
        own.push(tensor);
        return [name, tensor];
      }
      return [name, checkTensor(argument, label, signature, given[name])];
    });
    // All of them, so that what was made beside a failure can be destroyed.
    const settled = await Promise.allSettled(made);
    const failed = settled.find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    return Object.fromEntries(settled.map(({ value }) => value));
  };
  try {
    const used = model.inputs.filter((input) => input.used);
    // Both may be exchanged, so both can be written and read.
    const both = { readable: true, writable: true };
    const inputs = await bind('inputs', used, givenInputs, both);
    const outputs = await bind('outputs', model.outputs, givenOutputs, both);
    for (const { name } of used) {
      if (model.defaults?.[name] !== undefined && givenInputs[name] === undefined) context.writeTensor(inputs[name], bytesOf(model.defaults[name]));
    }
    return new OnnxBindings(construct, { model, context, graph, label, inputs, outputs, own, destroyed: false });
  } catch (error) {
    for (const tensor of own) tensor.destroy();
    throw error;
  }
}

function checkTensor(argument, label, { name, dataType, shape }, tensor) {
  try {
    toTensor(tensor);
  } catch {
    throw typeError('createBindings', label, `${argument}: ${quote(name)}: found ${show(tensor)}, allowed an MLTensor`);
  }
  if (tensor.dataType !== dataType || `${tensor.shape}` !== `${shape}`) {
    const found = text({ name: tensor.label, dataType: tensor.dataType, shape: tensor.shape });
    throw typeError('createBindings', label, `${argument}: ${quote(name)}: found an MLTensor ${found}, allowed ${dataType}[${shape.join(', ')}]`);
  }
  return tensor;
}

module.exports = { OnnxBindings, bytesOf, createBindings };
