'use strict';

// One run of a model on typed arrays, by a plan for their shapes.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { invalidState } = require('../errors.js');
const { begin } = require('../settle.js');
const { arrayOver, bytesOf } = require('./arrays.js');
const { put } = require('./named.js');
const { tensorOfNumber, toTensor } = require('../tensor.js');
const { resultTensor } = require('./tensor.js');

/** @typedef {import('./plans.js').Plan} Plan */
/** @typedef {Set<string> | undefined} Wanted the names of the outputs that are wanted; nothing for all */

/**
 * @param {Plan} plan
 * @param {Record<string, any>} arrays checked, of the plan's shapes; where a plan walks also lists of arrays, and MLTensors
 * @param {{handle: number, label: string, inputs: {name: string}[]}} model its state
 * @param {{wanted: Wanted, seed?: number, maxBytes?: number, watch?: number, kept?: string[]}} wish `kept` are outputs that stay on the
 *   device, where a plan walks
 * @returns {Promise<Record<string, object>>} tensors by the names of the outputs
 */
function runPlan(plan, arrays, model, wish) {
  const { context } = plan.graphState;
  if (context.lost) throw invalidState('run', model.label, 'the MLContext was destroyed or lost');
  if (plan.walks) return runProgram(plan, arrays, model, wish);
  return context.device === 'gpu' ? runOnTensors(plan, arrays, model, wish) : runInMemory(plan, arrays, model, wish);
}

/** On the CPU the graph works on copies of the inputs and writes into the results' own memory. */
function runInMemory(plan, arrays, { label }, { wanted, watch = 0 }) {
  const { graphState: graph, inputNames, outputs, prefetch } = plan;
  const { context } = graph;
  // There is nothing to compute where all is known.
  if (graph.outputs.size === 0) return Promise.resolve(results(outputs, wanted));
  const inputs = new Array(inputNames.length);
  for (let i = 0; i < inputs.length; i++) inputs[i] = arrays[inputNames[i]];
  const buffers = prefetch.take(graph, label);
  // What is not wanted is not computed.
  const targets = wanted === undefined ? buffers : buffers.slice();
  if (wanted !== undefined) for (const [name, { position }] of graph.outputs) if (!wanted.has(name)) targets[position] = undefined;
  const arrive = () => results(outputs, wanted, buffers);
  const entry = { operator: 'run', label, context, object: graph, lends: true, soon: true, memory: buffers, arrive };
  const run = begin(entry, (request) => native.run(request, context.handle, graph.handle, inputs, targets, label, watch));
  prefetch.prepare(graph);
  return run;
}

/** A model that is cut, or takes or gives sequences, runs natively, from part to part. */
function runProgram({ graphState: graph, shapes }, arrays, model, { wanted, seed = -1, maxBytes = Infinity, watch = 0, kept = [] }) {
  const { label } = model;
  const tensors = [];
  const values = model.inputs.map(({ name }) => {
    const value = arrays[name];
    if (value === undefined || Array.isArray(value) || ArrayBuffer.isView(value)) return value;
    const { handle } = toTensor(value);
    tensors.push(handle);
    return handle;
  });
  const arrive = (outputs) => {
    // fromEntries defines, so that '__proto__' is a name like others.
    return Object.fromEntries(outputs.filter(([name]) => wanted === undefined || wanted.has(name)).map(([name, value]) => [name, contentOf(value, graph.context)]));
  };
  const entry = { operator: 'run', label, context: graph.context, object: graph, arrive };
  const most = maxBytes === Infinity ? -1 : maxBytes;
  return begin(entry, (request) => {
    graph.context.order.runOnnx(tensors, request, model.handle, graph.handle, shapes, values, kept, label, seed, most, watch);
  });
}

const tensorOf = ([dataType, shape, buffer]) => resultTensor(dataTypes[dataType], arrayOver(dataTypes[dataType], buffer), shape);

/** A tensor, in memory or on the device; a list of them, or null for an optional value without content. */
function contentOf(value, context) {
  if (value === undefined) return null;
  const [dataType, shape, elements] = value;
  if (typeof elements === 'number') return { dataType: dataTypes[dataType], shape, tensor: tensorOfNumber(context, { dataType, shape, label: '' }, elements) };
  return typeof dataType === 'number' ? tensorOf(value) : value.map(tensorOf);
}

/** Elsewhere on tensors, which later runs use again. */
async function runOnTensors(plan, arrays, { label }, { wanted }) {
  if (plan.graphState.outputs.size === 0) return results(plan.outputs, wanted);
  const tensors = plan.idle.take(plan);
  // Without a set of tensors at hand the caller may change the arrays while one is made.
  if (tensors === undefined) return await dispatch(plan, await newTensors(plan, arrays), undefined, label, wanted);
  return await dispatch(plan, tensors, arrays, label, wanted);
}

/** A set of tensors with the inputs written. */
async function newTensors({ context, graphState }, given) {
  const copies = Object.fromEntries([...graphState.inputs.keys()].map((name) => [name, bytesOf(given[name]).slice()]));
  // Without a prototype, since '__proto__' is a name like others.
  const tensors = { inputs: Object.create(null), outputs: Object.create(null) };
  const create = (into, list, options) =>
    [...list].map(async ([name, { dataType, shape }]) => {
      into[name] = await context.createTensor({ dataType: dataTypes[dataType], shape, ...options, label: name });
    });
  const made = [...create(tensors.inputs, graphState.inputs, { writable: true }), ...create(tensors.outputs, graphState.outputs, { readable: true })];
  // All of them, so that what was made beside a failure can be destroyed.
  const settled = await Promise.allSettled(made);
  try {
    for (const { reason } of settled.filter(({ status }) => status === 'rejected')) throw reason;
    write(context, tensors, copies);
  } catch (error) {
    release(tensors);
    throw error;
  }
  return tensors;
}

/** As bytes, so that arrays which only we take pass the check of writeTensor(). */
function write(context, tensors, arrays) {
  for (const name of Object.keys(tensors.inputs)) context.writeTensor(tensors.inputs[name], bytesOf(arrays[name]));
}

/** One run on a set of tensors, which is free for others afterwards. */
async function dispatch(plan, tensors, arrays, label, wanted) {
  const { context, graph, outputs } = plan;
  try {
    if (arrays !== undefined) write(context, tensors, arrays);
    context.dispatch(graph, tensors.inputs, tensors.outputs, { label });
    const names = Object.keys(tensors.outputs).filter((name) => wanted === undefined || wanted.has(name));
    const buffers = await Promise.all(names.map((name) => context.readTensor(tensors.outputs[name])));
    const found = new Array(plan.graphState.outputs.size);
    names.forEach((name, i) => (found[plan.graphState.outputs.get(name).position] = buffers[i]));
    return results(outputs, wanted, found);
  } finally {
    if (plan.retired) release(tensors);
    else plan.idle.put(plan, tensors);
  }
}

function release({ inputs, outputs }) {
  for (const tensor of [...Object.values(inputs), ...Object.values(outputs)]) tensor.destroy();
}

/** The tensors by their names, of buffers by their positions. */
function results(outputs, wanted, buffers = []) {
  const found = {};
  for (let i = 0; i < outputs.length; i++) {
    const { name, dataType, shape, position, known } = outputs[i];
    if (wanted !== undefined && !wanted.has(name)) continue;
    const buffer = known === undefined ? buffers[position] : known.slice();
    put(found, name, resultTensor(dataType, arrayOver(dataType, buffer), shape.slice()));
  }
  return found;
}

module.exports = { release, runPlan };
