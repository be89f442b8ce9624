'use strict';

// Promises for work that the native side finishes later. Each pending one has a number. The native side delivers finished numbers in batches: all
// that are ready in one wake-up of the event loop.
//
// An entry keeps what its work needs alive: the context, and the memory that the native side writes into. It stays until the native side is done
// with it, even if destroy() rejected the promise before.

const { setImmediate } = require('node:timers');
const native = require('./native.js');
const { failed } = require('./diagnostics.js');
const { invalidState, nativeError } = require('./errors.js');
const polling = require('./event-loop-polling.js');

/** @typedef {import('./states').Entry} Entry */

/** @type {Map<number, Entry>} */
const pending = new Map();

/**
 * The contexts by their handles, held weakly: waiting for the loss of one keeps nothing alive.
 * @type {Map<number, WeakRef<import('./states').ContextState>>}
 */
const contexts = new Map();

/** Called when a context is lost without a destroy(). */
let onLost;

// Several copies of this module can share one addon, such as the test files of a process; the native side gives each a
// range of numbers of its own. The first of them stands for events. While nothing is pending the native side holds
// `settle` weakly, so that a copy can be collected; what can make requests has to hold it. It is read from there: bundlers drop
// what nobody reads.
const requests = { settle, first: 0, last: 0 };
requests.first = native.initialize(requests.settle);
requests.last = requests.first;

/**
 * Starts work that ends later.
 * @param {Entry} entry
 * @param {(request: number) => void} start calls the native function
 * @returns {Promise<any>}
 */
function begin(entry, start) {
  const request = ++requests.last;
  const promise = new Promise((resolve, reject) => {
    entry.resolve = resolve;
    entry.reject = reject;
  });
  pending.set(request, entry);
  try {
    if (startsAtOnce(start, request)) entry.soon = false;
  } catch (error) {
    pending.delete(request);
    throw nativeError(error);
  }
  if (entry.object !== undefined) entry.object.waiting++;
  if (entry.soon && entry.context.habits) polling.expect(entry.context);
  return promise;
}

/**
 * Calls a native function, which may do short work at once. Returns whether its result is ready. Promises are settled in a turn of
 * their own all the same: script that asks again and again lets timers and input have theirs.
 */
function startsAtOnce(start, request) {
  native.holdSettling();
  let isReady;
  try {
    start(request);
  } finally {
    isReady = native.isReady();
    if (isReady) setImmediate(native.settleRest);
  }
  return isReady;
}

/**
 * The same for what lib/ itself asks of the native side: a promise of the native value, or of the Cause that it failed with. What
 * `start` throws is thrown.
 * @param {(request: number) => void} start
 * @returns {Promise<any>}
 */
function ask(start) {
  const request = ++requests.last;
  const promise = new Promise((resolve, reject) => {
    pending.set(request, { operator: '', label: '', context: undefined, arrive: (value) => value, resolve, reject, isOurs: true });
  });
  try {
    start(request);
  } catch (error) {
    pending.delete(request);
    throw error;
  }
  return promise;
}

/**
 * Settles a request that was carried out here and not by the native side.
 * @param {number} request
 * @param {import('./native').Cause | undefined} failure
 * @param {any} [value]
 */
function settleRequest(request, failure, value = undefined) {
  if (!pending.has(request)) return;
  if (failure === undefined) finish(request, null, value);
  else finish(request, failure.code ?? 'OperationError', failure);
}

/**
 * Called by the native side, with `request, code, value` for each that is ready; with nothing where this round of the event
 * loop has lasted long enough, and what is ready is to be asked for at its end, so that timers have their turn.
 */
function settle(batch) {
  if (batch === undefined) {
    setImmediate(native.settleRest);
    return;
  }
  for (let i = 0; i < batch.length; i += 3) {
    const request = batch[i];
    if (request === requests.first) announce(batch[i + 2]);
    else finish(request, batch[i + 1], batch[i + 2]);
  }
}

function finish(request, code, value) {
  const entry = pending.get(request);
  // The call has thrown, and what it began has ended as well.
  if (entry === undefined) return;
  pending.delete(request);
  entry.ended?.();
  if (entry.isOurs) {
    if (code === null) entry.resolve(value);
    else entry.reject({ ...value, code });
    return;
  }
  if (entry.object !== undefined) entry.object.waiting--;
  if (entry.soon && entry.context.habits) polling.arrived(entry.context);
  if (entry.over) {
    // It may have succeeded all the same.
    if (entry.isAbandoned) entry.fail?.(undefined);
    return;
  }
  if (entry.refusal !== undefined) {
    refuse(entry, entry.refusal);
    return;
  }
  if (code !== null) {
    refuse(entry, nativeError({ ...value, code }));
    return;
  }
  try {
    entry.resolve(entry.arrive(value));
  } catch (error) {
    refuse(entry, error);
  }
}

function refuse(entry, reason) {
  entry.over = true;
  failed(entry, reason);
  entry.reject(reason);
  entry.fail?.(reason);
}

/**
 * The caller does not want it any more: its promise is rejected, at once unless it has lent memory, which it gets back with that. What becomes of it
 * is released when the native side is done.
 * @param {Entry} entry
 * @param {unknown} reason
 */
function abandon(entry, reason) {
  if (entry.over) return;
  if (entry.lends) {
    entry.refusal ??= reason;
    return;
  }
  entry.over = true;
  entry.isAbandoned = true;
  failed(entry, reason);
  entry.reject(reason);
}

function refuseAsDestroyed(entry, what) {
  const reason = invalidState(entry.operator, entry.label, what);
  // Kernels may still be writing into the caller's memory.
  if (entry.lends) entry.refusal ??= reason;
  else refuse(entry, reason);
}

/** "For each promise in pendingPromises": what waits for a tensor or a graph that is destroyed. */
function refuseWaiting(state, what) {
  if (state.waiting > 0) refuseThose((entry) => entry.object === state, what);
}

/** All that waits for a context which is lost. */
function refuseAll(context, message) {
  refuseThose((entry) => entry.context === context, message);
}

function refuseThose(isMeant, what) {
  pending.forEach((entry) => {
    if (isMeant(entry) && !entry.over) refuseAsDestroyed(entry, what);
  });
}

function announce({ event, context, message }) {
  const state = contexts.get(context)?.deref();
  if (state === undefined) return;
  if (event === 'tasks') state.order.timeline.serveTasks();
  else onLost(state, message);
}

/** Waits for the loss of a context. */
function listen(state) {
  contexts.set(state.handle, new WeakRef(state));
}

function unlisten(handle) {
  contexts.delete(handle);
}

function whenLost(lose) {
  onLost = lose;
}

module.exports = { abandon, ask, begin, events: requests.first, listen, refuseAll, refuseWaiting, settle: settleRequest, unlisten, whenLost };
