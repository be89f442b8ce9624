'use strict';

// Tensors that WebGPU and WebNN share (docs/extensions.md F2 to F4).
//
// A tensor is *rented* to a GPUDevice: it is exported as a GPUBuffer until the buffer's `destroy()` or `release()` gives it back. On the device of the
// context the buffer is the tensor's own memory, and nothing is copied: the queue has the earlier dispatches, and later ones come after what script
// submits meanwhile. For another context or device the contents are copied through host memory, once each way.
//
// Three texts describe it, and each tensor follows the one that it was made by:
//
// * `draft`: createExportableTensor() and exportToGPU(), of the Candidate Recommendation Draft of 10 September 2026. WebNN's methods
//   refuse a tensor while it is exported.
// * `exportable`, `importable`: `createTensor({exportableToGPU})` with exportToGPU(), and `createTensor({importableToWebGPU})` with
//   importExternalBuffer(), of the MLTensor explainer. WebNN's work that depends on the tensor waits (order.js).

const { setImmediate } = require('node:timers/promises');
const { exception, invalidState, named, typeError } = require('../errors.js');
const { ask, begin, settle } = require('../settle.js');
const { COPY_DST, COPY_SRC, STORAGE, bufferSize, checked, readBytes, writeBytes } = require('./device.js');

/** @typedef {import('../states').TensorState} TensorState */

/**
 * A tensor on its way to WebGPU and back.
 * @typedef {object} Rental
 * @property {GPUBuffer | Promise<GPUBuffer>} result what script gets
 * @property {() => void} giveBack
 */

/**
 * `MLContext.exportToGPU()`; the tensor is one of the context and still there.
 * @param {TensorState} tensor
 * @returns {GPUBuffer | Promise<GPUBuffer>}
 */
function exportToGPU(tensor) {
  const { context, label } = tensor;
  if (tensor.sharing === 'draft') {
    if (tensor.rental !== undefined) return tensor.rental.result;
    return tensor.gpuDevice === context.gpuDevice ? lend(tensor, 'exportToGPU') : copyOut(tensor, tensor.gpuDevice, 'exportToGPU', label);
  }
  if (tensor.sharing !== 'exportable') {
    throw typeError('exportToGPU', label, 'tensor: found an MLTensor that cannot be exported, allowed one made by createExportableTensor() or with {exportableToGPU: true}');
  }
  if (context.gpuDevice === undefined) {
    throw typeError('exportToGPU', label, 'tensor: found an MLTensor of an MLContext without a GPUDevice, allowed one made by createExportableTensor(), which names the device');
  }
  requireNotRented(tensor, 'exportToGPU');
  return lendLater(tensor, 'exportToGPU');
}

/**
 * `importExternalBuffer()`
 * @param {TensorState} tensor
 * @param {GPUDevice} device
 * @param {string} label
 * @returns {Promise<GPUBuffer>}
 */
function importExternalBuffer(tensor, device, label) {
  if (tensor.sharing !== 'importable') {
    throw typeError('importExternalBuffer', tensor.label, 'source: found an MLTensor that cannot be imported, allowed one made with {importableToWebGPU: true}');
  }
  requireNotRented(tensor, 'importExternalBuffer');
  if (device !== tensor.context.gpuDevice) return copyOut(tensor, device, 'importExternalBuffer', label);
  if (label) tensor.handle.buffer.label = label;
  return lendLater(tensor, 'importExternalBuffer');
}

function requireNotRented({ rental, label }, operator) {
  if (rental === undefined) return;
  throw invalidState(operator, label, 'found an MLTensor that is exported already, allowed one whose buffer was given back by its destroy() or release()');
}

/** The tensor's own memory, at once. */
function lend(tensor, operator) {
  const { context, label, handle: storage } = tensor;
  if (context.order.isAwaited(storage)) {
    throw invalidState(operator, label, 'found an MLTensor of pending work, which waits for an MLTensor that WebGPU has, allowed one whose work has been submitted');
  }
  const { failure } = storage.completion;
  if (failure !== undefined) throw errored(operator, label, failure);
  tensor.rental = rent(tensor, () => {});
  return storage.buffer;
}

/** The tensor's own memory, when all earlier work has been submitted: at once, if none of it waits. */
function lendLater(tensor, operator) {
  const { context, label, handle: storage } = tensor;
  const entry = {
    operator, label, context, object: tensor,
    arrive: () => storage.buffer,
    fail: () => rental.giveBack(),
  };
  /** @type {Rental} */
  let rental;
  const result = begin(entry, (request) => {
    rental = rent(tensor, () => {
      storage.completion.end().then((failure) => settle(request, failure && erroredCause(operator, label, failure)));
    });
  });
  tensor.rental = rental;
  return result;
}

/**
 * Rents a tensor to the device of its context.
 * @param {TensorState} tensor
 * @param {() => void} start
 * @returns {Rental}
 */
function rent(tensor, start) {
  const storage = tensor.handle;
  storage.exported = true;
  const finish = tensor.context.order.holdBack(storage, start);
  const rental = {
    result: storage.buffer,
    giveBack() {
      if (tensor.rental !== rental) return;
      tensor.rental = undefined;
      storage.takeBack();
      finish();
    },
  };
  own(storage.buffer, rental.giveBack);
  tensor.rental = rental;
  return rental;
}

/**
 * A copy on another device, or from another kind of context.
 * @param {TensorState} tensor
 * @param {GPUDevice} device
 * @param {string} operator
 * @param {string} shown
 * @returns {Promise<GPUBuffer>}
 */
function copyOut(tensor, device, operator, shown) {
  const { context, label } = tensor;
  const { order } = context;
  const { handle, buffer: { byteLength } } = tensor;
  const loss = lossOf(device);
  if (loss.hasHappened) return Promise.reject(invalidState(operator, label, LOST));
  const requireThere = () => {
    if (loss.hasHappened) throw { code: 'InvalidStateError', message: `${named(operator, label)}: ${LOST}` };
  };
  /** @type {GPUBuffer | undefined} */
  let buffer;
  let finish = () => {};
  const rental = {
    result: undefined,
    giveBack() {
      if (tensor.rental !== rental) return;
      tensor.rental = undefined;
      loss.lent.delete(rental.giveBack);
      if (buffer === undefined) finish();
      else copyBack(order.timeline, device, buffer, handle, byteLength).then(finish);
    },
  };
  /** @type {import('../states').Entry} */
  const entry = {
    operator, label, context, object: tensor,
    arrive: () => {
      own(buffer, rental.giveBack);
      return buffer;
    },
    fail: () => {
      if (tensor.rental === rental) tensor.rental = undefined;
      loss.lent.delete(rental.giveBack);
      finish();
    },
  };
  // Assigned before: the copy may be queued at once.
  tensor.rental = rental;
  rental.result = begin(entry, (request) => {
    const bytes = new ArrayBuffer(byteLength);
    const copy = async () => {
      await ask((read) => order.timeline.readTensor(read, handle, bytes, 0));
      requireThere();
      const creation = checked(device, () => {
        const descriptor = { label: shown, size: bufferSize(byteLength), usage: STORAGE | COPY_SRC | COPY_DST };
        buffer = device.createBuffer(descriptor);
        writeBytes(device, buffer, new Uint8Array(bytes));
      });
      const refused = await creation.complaint;
      // A device that is lost complains of nothing, and gives nothing back.
      requireThere();
      if (refused !== undefined) throw { ...refused, message: `${named(operator, label)}: ${refused.message}` };
    };
    finish = order.holdBack(handle, () => {
      const end = (failure) => {
        // The request may have been rejected meanwhile.
        if (failure !== undefined || entry.over) buffer?.destroy();
        settle(request, failure);
      };
      copy().then(() => end(undefined), (error) => end(asCause(error, operator, label)));
    });
  });
  // Script may leave it to the first one who asks for it.
  rental.result.catch(() => {});
  // The device is lost, so nothing is copied back; the tensor keeps its contents.
  loss.lent.add(rental.giveBack);
  return rental.result;
}

const LOST = 'the GPUDevice was destroyed or lost';

/** Whether devices are lost, as far as they have said so, and what is to be given back then. @type {WeakMap<GPUDevice, {hasHappened: boolean, lent: Set<() => void>}>} */
const losses = new WeakMap();

function lossOf(device) {
  let loss = losses.get(device);
  if (loss === undefined) {
    const found = { hasHappened: false, lent: new Set() };
    const happens = () => {
      found.hasHappened = true;
      found.lent.forEach((giveBack) => giveBack());
    };
    device.lost.then(happens, () => {});
    losses.set(device, (loss = found));
  }
  return loss;
}

/** Rejects for a device that is lost. */
async function requireDevice(operator, label, device) {
  const loss = lossOf(device);
  // One that was lost before says so now.
  await setImmediate();
  if (loss.hasHappened) throw invalidState(operator, label, LOST);
}

/** What WebGPU wrote goes to the tensor. Where the device is lost meanwhile the tensor keeps what it had. */
async function copyBack(timeline, device, buffer, handle, byteLength) {
  try {
    const { result: read, complaint } = checked(device, () => readBytes(device, buffer, byteLength, 'given back'));
    destroyOwn(buffer);
    const bytes = await read();
    if ((await complaint) === undefined) timeline.writeTensor(handle, bytes, '');
  } catch {
    // The device, or the context, is lost.
  }
}

/** A failure of a copy, as a Cause. */
function asCause(error, operator, label) {
  if (typeof error?.code === 'string') {
    return error.cause === undefined ? error : erroredCause(operator, label, error.cause);
  }
  return { code: 'OperationError', message: `${named(operator, label)}: ${error?.message ?? error}` };
}

/**
 * Has the buffer's `destroy()` and `release()` give it back.
 * @param {GPUBuffer} buffer
 * @param {() => void} giveBack
 */
function own(buffer, giveBack) {
  for (const name of ['destroy', 'release']) {
    Object.defineProperty(buffer, name, { value: () => giveBack(), writable: true, enumerable: false, configurable: true });
  }
}

/** The method that `own` has covered. */
function destroyOwn(buffer) {
  Reflect.apply(Object.getPrototypeOf(buffer).destroy, buffer, []);
}

function erroredCause(operator, label, cause) {
  return { code: 'OperationError', message: `${named(operator, label)}: the tensor is errored: ${cause.message}`, cause };
}

function errored(operator, label, failure) {
  const { code, message, cause } = erroredCause(operator, label, failure);
  return exception(code, message, cause);
}

/**
 * "Is exported", for what refuses such tensors.
 * @param {TensorState} tensor
 */
function isExported({ sharing, rental }) {
  return sharing === 'draft' && rental !== undefined;
}

module.exports = { exportToGPU, importExternalBuffer, isExported, requireDevice };
