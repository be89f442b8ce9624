'use strict';

// Work that its caller can cancel with an AbortSignal (docs/extensions.md C19), that is more or less urgent, or that may wait for a limited time (C20).
// If it is cancelled, the promise is rejected with the signal's reason at once. The native side is told, and ends the work as soon as it can. Until then
// it keeps its memory, and the request is pending here.

const native = require('./native.js');
const { forgetSteps } = require('./device-steps.js');
const { Mismatch } = require('./errors.js');
const { keepReason } = require('./reasons.js');
const { createWatch, isScheduled } = require('./scheduling.js');
const { abandon, begin } = require('./settle.js');
const { trace } = require('./trace.js');

/** @typedef {import('./states').Entry} Entry */

/** AbortSignal, of any realm. */
function abortSignal(value) {
  if (isSignal(value)) return value;
  throw new Mismatch(value, 'an AbortSignal');
}

function isSignal(value) {
  return typeof value === 'object' && value !== null && typeof value.aborted === 'boolean' && typeof value.addEventListener === 'function';
}

/** The member of dictionaries. */
const signalMember = { name: 'signal', convert: abortSignal };

/** What to call when a signal is aborted. @type {WeakMap<AbortSignal, Set<() => void>>} */
const listeners = new WeakMap();

/**
 * Calls back when a signal is aborted. A server may give one to very many calls, so a signal has one listener.
 * @param {AbortSignal} signal that is not aborted
 * @param {() => void} call
 * @returns {() => void} ends that
 */
function whenAborted(signal, call) {
  let all = listeners.get(signal);
  if (all === undefined) {
    const added = (all = new Set());
    const callAll = () => {
      listeners.delete(signal);
      for (const one of [...added]) one();
    };
    signal.addEventListener('abort', callAll, { once: true });
    listeners.set(signal, all);
  }
  all.add(call);
  return () => void all.delete(call);
}

/** What was given up, by the watches, until these are destroyed. @type {Map<number, {value: unknown}>} */
const allGivenUp = new Map();

/**
 * Gives up what has a watch.
 * @param {number} watch
 * @param {unknown} reason
 */
function giveUp(watch, reason) {
  const [number, ...gone] = native.giveUp(watch);
  keepReason(number, reason, gone);
  allGivenUp.set(watch, { value: reason });
}

/**
 * Why what has a watch was given up, if it was.
 * @param {number} watch
 * @returns {{value: unknown} | undefined}
 */
function givenUp(watch) {
  return allGivenUp.get(watch);
}

/** @param {number} watch */
function destroyWatch(watch) {
  allGivenUp.delete(watch);
  forgetSteps(watch);
  native.destroyWatch(watch);
}

/**
 * Starts work that ends later, as begin() does.
 * @param {Entry} entry
 * @param {import('./scheduling.js').Schedule} schedule whose signal is not aborted
 * @param {(request: number, watch: number) => void} start calls the native function; 0 is nobody's watch
 * @returns {Promise<any>}
 */
function beginWatched(entry, schedule, start) {
  const note = trace?.noteOf(entry);
  if (!isScheduled(schedule) && note === undefined) return begin(entry, (request) => start(request, 0));
  const { signal } = schedule;
  const watch = createWatch(schedule, note !== undefined);
  const cancel = () => {
    giveUp(watch, signal.reason);
    abandon(entry, signal.reason);
  };
  const unwatch = signal && whenAborted(signal, cancel);
  const { ended } = entry;
  entry.ended = () => {
    ended?.();
    unwatch?.();
    note?.(native.takeSteps(watch));
    destroyWatch(watch);
  };
  try {
    return begin(entry, (request) => start(request, watch));
  } catch (error) {
    entry.ended();
    throw error;
  }
}

module.exports = { beginWatched, destroyWatch, giveUp, givenUp, isSignal, signalMember, whenAborted };
