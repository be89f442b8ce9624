'use strict';

// What generate() asks of the native side: it ends at once for the caller when the signal comes, and soon really.

const native = require('../native.js');
const { CONTEXT_LOST, invalidState, named, nativeError } = require('../errors.js');
const { begin } = require('../settle.js');
const { NAME } = require('./cache.js');

/**
 * A call that is under way.
 * @typedef {{model: any, session: number, signal?: AbortSignal, isOver: boolean}} Work
 */

function requireContext({ label, contextState }) {
  if (contextState.lost) throw invalidState(NAME, label, CONTEXT_LOST);
}

/** A promise, or the reason of a signal that comes before. */
function untilAbort(signal, promise, cancel = () => {}) {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancel();
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function cancel({ isOver, session }) {
  if (!isOver) native.cancelSequences(session);
}

/** @param {Work} work */
function ask(work, start) {
  const { model, signal } = work;
  const { label, contextState: context } = model;
  requireContext(model);
  signal?.throwIfAborted();
  const done = begin({ operator: NAME, label, context, arrive: (value) => value }, start);
  return untilAbort(signal, done, () => cancel(work));
}

/** Calls the native side, whose errors are script's, and begin with the name of the function. */
function sync({ label }, call) {
  try {
    return call();
  } catch (error) {
    throw nativeError({ code: error.code, cause: error.cause, reason: error.reason, given: error.given, message: `${named(NAME, label)}: ${error.message}` });
  }
}

/**
 * Asks for a step. Masks that are promised may come while it runs.
 * @param {Work} work
 * @param {Uint32Array[] | Promise<Uint32Array[]>} masks
 * @param {'before' | 'meanwhile' | 'never'} when the native side needs them
 * @param {(request: number, masks: Uint32Array[] | undefined) => void} start
 */
async function askForStep(work, masks, when, start) {
  const askWith = (given) => ask(work, (request) => start(request, given));
  if (when === 'never') return askWith([]);
  if (!(masks instanceof Promise)) return askWith(masks);
  if (when === 'before') return askWith(await promised(work, masks));
  let failure;
  const give = (all) => work.isOver || sync(work.model, () => native.giveMasks(work.session, all));
  masks.then(give).catch((error) => {
    failure = { error };
    cancel(work);
  });
  try {
    return await askWith(undefined);
  } catch (error) {
    throw failure === undefined ? error : failure.error;
  }
}

/** What somebody has promised, unless the signal comes before. */
async function promised({ signal }, promise) {
  if (!(promise instanceof Promise)) return promise;
  signal?.throwIfAborted();
  return untilAbort(signal, promise);
}

module.exports = { ask, askForStep, promised, requireContext, sync };
