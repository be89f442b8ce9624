'use strict';

// The places of results: memory of their own, an array or an MLTensor of the caller's, or a new tensor on the device.

const { invalidState, typeError } = require('../errors.js');
const { quote } = require('../show.js');
const { isDestroyed, toTensor } = require('../tensor.js');
const { bytesOf, elementCount } = require('./arrays.js');
const { unreadOf } = require('./unread.js');

/** A new tensor, which then belongs to the caller. A result without elements stays in memory: no device holds it. */
const DEVICE = Symbol('device');

/** By the names of outputs; the others go into memory of their own. @typedef {Map<string, any>} Places */

/** Whether a result that goes there is a tensor. */
const isOnDevice = (place) => place !== undefined && !ArrayBuffer.isView(place);

/** @param {Places | undefined} places */
function usesDevice(places) {
  if (places === undefined) return false;
  for (const place of places.values()) if (isOnDevice(place)) return true;
  return false;
}

/** Waits for all, so that what was made beside a failure can be destroyed, and fails like the first that failed. */
async function allOf(promises) {
  const settled = await Promise.allSettled(promises);
  return settled.map((one) => {
    if (one.status === 'rejected') throw one.reason;
    return one.value;
  });
}

/**
 * Puts results where the caller wants them.
 * @param {import('./model.js').Model} model
 * @param {Record<string, any>} results of which those on the device may be in their places
 * @param {Places} places
 * @param {import('./given.js').Given} given
 */
async function deliver(model, results, places, given) {
  for (const [name, place] of places) {
    if (ArrayBuffer.isView(place)) fill(model, name, results[name], place, given.passed[model.pastOf.get(name)]);
  }
  if (!usesDevice(places)) return results;
  const created = Object.entries(results).flatMap(([name, result]) => (result?.tensor === undefined || result.tensor === places.get(name) ? [] : result.tensor));
  try {
    const moved = Object.entries(results).map(async ([name, result]) => [name, await onDevice(model, name, result, places.get(name), created)]);
    return Object.fromEntries(await allOf(moved));
  } catch (error) {
    for (const tensor of created) tensor.destroy();
    throw error;
  }
}

/**
 * Puts a result into an array of the caller's, which may be the one that was given.
 * @param {any} past what was given for the cache that the result is
 */
function fill({ label }, name, result, array, past) {
  const { shape } = result;
  const unread = unreadOf(result, shape);
  const length = unread === undefined ? result.data.length : elementCount(shape);
  if (array.length !== length) {
    throw typeError('run', label, `outputs: ${quote(name)}: found an array of ${array.length} elements, allowed ${length} for the shape [${shape.join(', ')}]`);
  }
  if (unread === undefined) bytesOf(array).set(bytesOf(result.data));
  else unread.writeTo(array, past);
  result.data = array;
}

/** Puts a result into a tensor, if it is to be one and is not there. */
async function onDevice({ label, context }, name, result, place, created) {
  if (!isOnDevice(place) || result === null || Array.isArray(result) || result.tensor === place) return result;
  const { dataType, shape, tensor } = result;
  if (tensor !== undefined) {
    if (place === DEVICE) return result;
    requireLike(label, name, result, place);
    share(label, name, tensor, place);
    tensor.destroy();
    return { dataType, shape, tensor: place };
  }
  // Caches stay where they are.
  if (place === DEVICE && (unreadOf(result, shape) !== undefined || result.data.length === 0)) return result;
  const { data } = result;
  let target = place;
  if (target === DEVICE) {
    target = await context.createTensor({ dataType, shape, readable: true, writable: true });
    created.push(target);
  }
  context.writeTensor(target, bytesOf(data));
  return { dataType, shape, tensor: target };
}

/** Gives a tensor of the caller's what a result's has, as a write does. */
function share(label, name, tensor, target) {
  const to = toTensor(target);
  if (isDestroyed(to)) throw invalidState('run', label, `outputs: ${quote(name)}: the MLTensor was destroyed`);
  to.context.order.shareTensor(toTensor(tensor).handle, to.handle);
}

function requireLike(label, name, { dataType, shape }, target) {
  if (target.dataType === dataType && `${target.shape}` === `${shape}`) return;
  const text = (of) => `${of.dataType}[${of.shape.join(', ')}]`;
  throw typeError('run', label, `outputs: ${quote(name)}: found an MLTensor ${text(target)}, allowed ${text({ dataType, shape })}, which was computed`);
}

module.exports = { DEVICE, allOf, deliver, isOnDevice, usesDevice };
