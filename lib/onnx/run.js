'use strict';

// Runs a model by a plan, in the way that suits the values, the device and the places of the results.

const native = require('../native.js');
const { dispatchUnder } = require('../context.js');
const { dataTypes } = require('../descriptor.js');
const { wantsSteps } = require('../device-steps.js');
const { exception } = require('../errors.js');
const { NORMAL, PRIORITIES } = require('../scheduling.js');
const { begin } = require('../settle.js');
const { tensorOfNumber, toTensor } = require('../tensor.js');
const { arrayOver, bytesOf } = require('./arrays.js');
const { Named, put } = require('./named.js');
const { DEVICE, allOf, isOnDevice, usesDevice } = require('./places.js');
const { resultTensor } = require('./tensor.js');

/** @typedef {import('./given.js').Given} Given */
/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./model.js').RunOptions} RunOptions */
/** @typedef {import('./plan.js').Plan} Plan */
/** Names of outputs; nothing for all. @typedef {Set<string> | undefined} Wanted */

/**
 * Runs a plan in the way that suits the values, the device, and the places of the results.
 * @param {Model} model
 * @param {Plan} plan
 * @param {Given} given whose shapes are the plan's
 * @param {RunOptions} options
 * @returns {Promise<Record<string, any>>} results by the names of the outputs, in memory or on the device; null for an optional value without
 *   content, lists for sequences
 */
function startRun(model, plan, given, options) {
  const { context } = plan.graphState;
  model.requireContext(options.operator ?? 'run');
  if (plan.isProgram) return runProgram(model, plan, given, options);
  if (given.hasTensors || usesDevice(options.places)) return runOnDevice(model, plan, given, options);
  return context.device === 'gpu' ? runOnTensors(model, plan, given, options) : runInMemory(model, plan, given, options);
}

/** On the CPU the graph works on copies of the inputs and writes into the results' own memory. */
function runInMemory({ label }, plan, { values }, { wanted, watch = 0 }) {
  const { graphState: graph, inputNames, outputs, prefetch } = plan;
  const { context } = graph;
  // There is nothing to compute where all is known.
  if (graph.outputs.size === 0) return Promise.resolve(results(outputs, wanted));
  const inputs = new Array(inputNames.length);
  for (let i = 0; i < inputs.length; i++) inputs[i] = values[inputNames[i]];
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
function runProgram(model, { graphState: graph }, { shapes, values }, { wanted, places, seed = -1, maxBytes = -1, watch = 0 }) {
  const { label } = model;
  const tensors = [];
  const passed = model.inputs.map(({ name }) => {
    const value = values[name];
    if (value === undefined || Array.isArray(value) || ArrayBuffer.isView(value)) return value;
    const { handle } = toTensor(value);
    tensors.push(handle);
    return handle;
  });
  const onDevice = places === undefined ? [] : [...places].filter(([, place]) => isOnDevice(place)).map(([name]) => name);
  const arrive = (outputs) => {
    // fromEntries defines, so that '__proto__' is a name like others.
    return Object.fromEntries(outputs.filter(([name]) => wanted === undefined || wanted.has(name)).map(([name, value]) => [name, contentOf(value, graph.context)]));
  };
  const entry = { operator: 'run', label, context: graph.context, object: graph, arrive };
  const most = maxBytes === Infinity ? -1 : maxBytes;
  return begin(entry, (request) => {
    graph.context.order.runOnnx(tensors, request, model.handle, graph.handle, shapes, passed, onDevice, label, seed, most, watch);
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

/** On a GPU the graph works on tensors, which later runs use again. */
async function runOnTensors({ label }, plan, given, options) {
  const { wanted } = options;
  if (plan.graphState.outputs.size === 0) return results(plan.outputs, wanted);
  const tensors = plan.idle.take(plan);
  // Without a set of tensors at hand the caller may change the arrays while one is made.
  if (tensors === undefined) return await dispatch(plan, await newTensors(plan, given.own().values), undefined, label, options);
  return await dispatch(plan, tensors, given.values, label, options);
}

/** A set of tensors with the inputs written. */
async function newTensors({ context, graphState }, values) {
  const tensors = { inputs: new Named(), outputs: new Named() };
  const create = (into, list, options) =>
    [...list].map(async ([name, { dataType, shape }]) => {
      into[name] = await context.createTensor({ dataType: dataTypes[dataType], shape, ...options, label: name });
    });
  const creations = [...create(tensors.inputs, graphState.inputs, { writable: true }), ...create(tensors.outputs, graphState.outputs, { readable: true })];
  try {
    await allOf(creations);
    write(context, tensors, values);
  } catch (error) {
    release(tensors);
    throw error;
  }
  return tensors;
}

/** As bytes, so that arrays which only we take pass the check of writeTensor(). */
function write(context, { inputs }, values) {
  for (const name of Object.keys(inputs)) context.writeTensor(inputs[name], bytesOf(values[name]));
}

/** One run on a set of tensors, which is free for others afterwards. */
async function dispatch(plan, tensors, values, label, options) {
  const { context, outputs } = plan;
  const { wanted } = options;
  try {
    if (values !== undefined) write(context, tensors, values);
    const ended = dispatchFor(plan, tensors, label, options);
    // Whoever reads the tensors hears of a failure.
    ended?.catch(() => {});
    const names = Object.keys(tensors.outputs).filter((name) => wanted === undefined || wanted.has(name));
    const buffers = await Promise.all(names.map((name) => context.readTensor(tensors.outputs[name])));
    await ended;
    const found = new Array(plan.graphState.outputs.size);
    names.forEach((name, i) => (found[plan.graphState.outputs.get(name).position] = buffers[i]));
    return results(outputs, wanted, found);
  } finally {
    if (!plan.keepTensors(tensors)) release(tensors);
  }
}

/** For ever, or nearly. */
const LONGEST = 2 ** 32 - 1;

/**
 * A dispatch that belongs to a run. What is dispatched has begun.
 * @returns {Promise<void> | undefined} ends when the watch has the steps, if it wants them
 */
function dispatchFor({ context, graph, graphState }, { inputs, outputs }, label, { life, priority = NORMAL, watch = 0 }) {
  if (life !== undefined && !life.begin()) throw exception('AbortError', 'the run is no longer wanted');
  if (wantsSteps(watch)) return dispatchUnder(context, [graph, inputs, outputs, { label }], watch);
  const { queue, priority: usual, timeout } = graphState.context;
  const options = { label, priority: priority === usual ? undefined : PRIORITIES[priority], timeout: timeout === undefined ? undefined : LONGEST };
  const work = () => context.dispatch(graph, inputs, outputs, options);
  if (queue === undefined) work();
  else queue.inside(work);
  return undefined;
}

function release({ inputs, outputs }) {
  for (const tensor of [...Object.values(inputs), ...Object.values(outputs)]) tensor.destroy();
}

/**
 * A run of which inputs or results stay on the device: MLTensors that were given are bound as they are, and results that are to stay are new
 * ones, which then belong to the caller.
 */
async function runOnDevice({ label }, plan, given, options) {
  const { context, graph, graphState, outputs } = plan;
  const { wanted, places, watch = 0 } = options;
  const isWanted = (name) => wanted === undefined || wanted.has(name);
  // The tensors that go with the run, and those that the caller gets.
  const own = [];
  const returned = [];
  const create = async ({ dataType, shape }, list) => {
    const tensor = await context.createTensor({ dataType: dataTypes[dataType], shape, readable: true, writable: true });
    list.push(tensor);
    return tensor;
  };
  const { values } = given.own();
  const bound = { inputs: new Named(), outputs: new Named() };
  const bindInput = async ([name, binding]) => {
    const value = values[name];
    if (!ArrayBuffer.isView(value)) {
      bound.inputs[name] = value;
      return;
    }
    bound.inputs[name] = await create(binding, own);
    context.writeTensor(bound.inputs[name], bytesOf(value));
  };
  const bindOutput = async ([name, binding]) => {
    const place = isWanted(name) ? places?.get(name) : undefined;
    bound.outputs[name] = place === DEVICE ? await create(binding, returned) : isOnDevice(place) ? place : await create(binding, own);
  };
  const result = async ({ name, dataType, shape, known }) => {
    const tensor = bound.outputs[name];
    if (tensor !== undefined && isOnDevice(places?.get(name))) return [name, { dataType, shape: [...shape], tensor }];
    const buffer = tensor === undefined ? known.slice() : await context.readTensor(tensor);
    return [name, resultTensor(dataType, arrayOver(dataType, buffer), [...shape])];
  };
  try {
    await allOf([...[...graphState.inputs].map(bindInput), ...[...graphState.outputs].map(bindOutput)]);
    const dispatched = [graph, bound.inputs, bound.outputs, { label }];
    // Who watches it has the steps when it has ended.
    if (watch > 0 && graphState.context.device === 'cpu' && graphState.outputs.size > 0) await dispatchUnder(context, dispatched, watch);
    else if (graphState.outputs.size > 0) await dispatchFor(plan, bound, label, options);
    return Object.fromEntries(await allOf(outputs.filter(({ name }) => isWanted(name)).map(result)));
  } catch (error) {
    for (const tensor of returned) tensor.destroy();
    throw error;
  } finally {
    for (const tensor of own) tensor.destroy();
  }
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

module.exports = { release, startRun };
