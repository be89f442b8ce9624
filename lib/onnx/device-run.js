'use strict';

// One run of a model of whose inputs or outputs some stay on the device: tensors that are given are bound as they are, and results that
// are to be kept are tensors, which then belong to the caller.

const { dataTypes } = require('../descriptor.js');
const { invalidState, typeError } = require('../errors.js');
const { quote } = require('../show.js');
const { isDestroyed, toTensor } = require('../tensor.js');
const { arrayOver, bytesOf } = require('./arrays.js');
const { runPlan } = require('./run.js');

/** @typedef {import('./plans.js').Plan} Plan */

/** A result, in memory or on the device. @typedef {{dataType: string, shape: number[], data?: ArrayBufferView, tensor?: object}} Result */

/**
 * @param {Plan} plan
 * @param {Record<string, any>} inputs arrays, which are nobody else's, or MLTensors of the plan's context, data types and shapes
 * @param {object} wish
 * @param {string} wish.label
 * @param {Set<string>} wish.wanted outputs
 * @param {Set<string>} wish.kept those of them that stay on the device; one of zero elements cannot
 * @param {Map<string, object>} wish.targets MLTensors that are to take outputs
 * @param {object} model its state
 * @returns {Promise<Record<string, Result>>} by the names of the outputs
 */
async function runOnDevice(plan, inputs, wish, model) {
  if (plan.walks) return runCut(plan, inputs, wish, model);
  const { context, graph, graphState, outputs } = plan;
  const { label, wanted, kept, targets } = wish;
  const own = [];
  const made = [];
  const create = async (descriptor, list) => {
    const tensor = await context.createTensor({ ...descriptor, readable: true, writable: true });
    list.push(tensor);
    return tensor;
  };
  const descriptorOf = ({ dataType, shape }) => ({ dataType: dataTypes[dataType], shape });
  try {
    // Without a prototype, since '__proto__' is a name like others.
    const bound = { inputs: Object.create(null), outputs: Object.create(null) };
    const bindInput = async ([name, binding]) => {
      const value = inputs[name];
      if (!ArrayBuffer.isView(value)) {
        bound.inputs[name] = value;
        return;
      }
      const tensor = await create(descriptorOf(binding), own);
      context.writeTensor(tensor, bytesOf(value));
      bound.inputs[name] = tensor;
    };
    const bindOutput = async ([name, binding]) => {
      bound.outputs[name] = targets.get(name) ?? (await create(descriptorOf(binding), wanted.has(name) && kept.has(name) ? made : own));
    };
    const all = [...[...graphState.inputs].map(bindInput), ...[...graphState.outputs].map(bindOutput)];
    // All of them, so that what was made beside a failure can be destroyed.
    for (const { reason } of (await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')) throw reason;
    if (graphState.outputs.size > 0) context.dispatch(graph, bound.inputs, bound.outputs, { label });
    const result = async ({ name, dataType, shape, known }) => {
      const described = { dataType, shape: [...shape] };
      const tensor = bound.outputs[name];
      if (tensor !== undefined) {
        if (kept.has(name) || targets.has(name)) return [name, { ...described, tensor }];
        return [name, { ...described, data: arrayOver(dataType, await context.readTensor(tensor)) }];
      }
      return [name, await place(context, { ...described, data: arrayOver(dataType, known.slice()) }, name, wish, made)];
    };
    const results = await Promise.allSettled(outputs.filter(({ name }) => wanted.has(name)).map(result));
    for (const { reason } of results.filter(({ status }) => status === 'rejected')) throw reason;
    return Object.fromEntries(results.map(({ value }) => value));
  } catch (error) {
    for (const tensor of made) tensor.destroy();
    throw error;
  } finally {
    for (const tensor of own) tensor.destroy();
  }
}

/** Puts a result that is in memory where it is wanted. */
async function place(context, result, name, { kept, targets }, made) {
  const target = targets.get(name);
  if (target === undefined && (!kept.has(name) || result.data.length === 0)) return result;
  const { dataType, shape, data } = result;
  let tensor = target;
  if (tensor === undefined) {
    tensor = await context.createTensor({ dataType, shape, readable: true, writable: true });
    made.push(tensor);
  }
  context.writeTensor(tensor, bytesOf(data));
  return { dataType, shape, tensor };
}

/** A model that is cut runs natively: results on the device are tensors of the timeline, and targets get what these have. */
async function runCut(plan, inputs, wish, model) {
  const { context } = plan;
  const { wanted, kept, targets } = wish;
  const stay = [...wanted].filter((name) => kept.has(name) || targets.has(name));
  const results = await runPlan(plan, inputs, model, { wanted, kept: stay });
  return placeAll(context, results, wish);
}

/** Puts results where they are wanted; nobody reads the elements of those in memory before. */
async function placeAll(context, results, wish) {
  const { label, targets } = wish;
  const made = Object.values(results).flatMap((result) => result?.tensor ?? []);
  try {
    const placed = Object.entries(results).map(async ([name, result]) => {
      const target = targets.get(name);
      if (result === null || Array.isArray(result)) return [name, result];
      // Nothing is in it, which no device holds, or it came through memory.
      if (result.tensor === undefined) return [name, await place(context, result, name, wish, made)];
      if (target === undefined) return [name, result];
      requireLike(label, name, result, target);
      share(label, name, result.tensor, target);
      result.tensor.destroy();
      return [name, { ...result, tensor: target }];
    });
    // All of them, so that what was made beside a failure can be destroyed.
    const settled = await Promise.allSettled(placed);
    for (const { reason } of settled.filter(({ status }) => status === 'rejected')) throw reason;
    return Object.fromEntries(settled.map(({ value }) => value));
  } catch (error) {
    for (const tensor of made) tensor.destroy();
    throw error;
  }
}

/** Gives a tensor of the caller's what a result has, as a write does. */
function share(label, name, result, target) {
  const to = toTensor(target);
  if (isDestroyed(to)) throw invalidState('run', label, `outputs: ${quote(name)}: the MLTensor was destroyed`);
  to.context.order.shareTensor(toTensor(result).handle, to.handle);
}

function requireLike(label, name, { dataType, shape }, target) {
  if (target.dataType === dataType && `${target.shape}` === `${shape}`) return;
  const text = (of) => `${of.dataType}[${of.shape.join(', ')}]`;
  throw typeError('run', label, `outputs: ${quote(name)}: found an MLTensor ${text(target)}, allowed ${text({ dataType, shape })}, which was computed`);
}

module.exports = { placeAll, runOnDevice };
