'use strict';

// One run of a model on typed arrays.

const native = require('../native.js');
const { invalidState } = require('../errors.js');
const { begin } = require('../settle.js');
const { arrayOver } = require('./arrays.js');
const { bytesOf } = require('./bindings.js');

/** @typedef {object} ModelState */

/**
 * On the CPU the graph works on copies of the inputs and writes into the results' own memory.
 * @param {ModelState} state
 * @param {Record<string, ArrayBufferView>} arrays checked
 */
function runInMemory(state, arrays) {
  const { graphState: graph, label, outputs, prefetch } = state;
  const { context } = graph;
  if (context.lost) throw invalidState('run', label, 'the MLContext was destroyed or lost');
  const inputs = new Array(graph.inputs.size);
  for (const [name, { position }] of graph.inputs) inputs[position] = arrays[name];
  const buffers = prefetch.take(graph, label);
  const arrive = () => results(outputs, ({ name }) => buffers[graph.outputs.get(name).position]);
  const entry = { operator: 'run', label, context, object: graph, lends: true, soon: true, memory: buffers, arrive };
  const run = begin(entry, (request) => native.run(request, context.handle, graph.handle, inputs, buffers, label));
  prefetch.prepare(graph);
  return run;
}

/**
 * Elsewhere on tensors, which later runs use again.
 * @param {ModelState} state
 * @param {Record<string, ArrayBufferView>} arrays checked
 */
async function runOnTensors(state, arrays) {
  const tensors = state.idle.take();
  // Without a set of tensors at hand the caller may change the arrays while one is made.
  if (tensors === undefined) return await dispatch(state, await newTensors(state, arrays), undefined);
  return await dispatch(state, tensors, arrays);
}

/** A set of tensors with the inputs written. */
async function newTensors(state, given) {
  const { context } = state;
  const copies = Object.fromEntries(state.used.map(({ name }) => [name, bytesOf(given[name]).slice()]));
  // Without a prototype, since '__proto__' is a name like others.
  const tensors = { inputs: Object.create(null), outputs: Object.create(null) };
  const create = (into, list, options) =>
    list.map(async ({ name, dataType, shape }) => {
      into[name] = await context.createTensor({ dataType, shape, ...options, label: name });
    });
  const made = [...create(tensors.inputs, state.used, { writable: true }), ...create(tensors.outputs, state.outputs, { readable: true })];
  // All of them, so that what was made beside a failure can be destroyed.
  const settled = await Promise.allSettled(made);
  try {
    for (const { reason } of settled.filter(({ status }) => status === 'rejected')) throw reason;
    write(state, tensors, copies);
  } catch (error) {
    release(tensors);
    throw error;
  }
  return tensors;
}

/** As bytes, so that arrays which only we take pass the check of writeTensor(). */
function write({ context, used }, tensors, arrays) {
  for (const { name } of used) context.writeTensor(tensors.inputs[name], bytesOf(arrays[name]));
}

/** One run on a set of tensors, which is free for others afterwards. */
async function dispatch(state, tensors, arrays) {
  const { context, graph, label, outputs } = state;
  try {
    if (arrays !== undefined) write(state, tensors, arrays);
    context.dispatch(graph, tensors.inputs, tensors.outputs, { label });
    const buffers = await Promise.all(outputs.map(({ name }) => context.readTensor(tensors.outputs[name])));
    return results(outputs, (_, i) => buffers[i]);
  } finally {
    if (state.destroyed) release(tensors);
    else state.idle.put(tensors);
  }
}

function release({ inputs, outputs }) {
  for (const tensor of [...Object.values(inputs), ...Object.values(outputs)]) tensor.destroy();
}

/** The typed arrays by their names. */
function results(outputs, bufferOf) {
  return Object.fromEntries(outputs.map((output, i) => [output.name, arrayOver(output.dataType, bufferOf(output, i))]));
}

module.exports = { release, runInMemory, runOnTensors };
