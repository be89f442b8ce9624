'use strict';

// How urgent work is, and how long it may wait (docs/extensions.md C20).

const native = require('./native.js');
const { watchSteps } = require('./device-steps.js');
const { enforcedUnsignedLong, enumeration } = require('./webidl.js');

/** Their positions are those of the native side. */
const PRIORITIES = ['high', 'normal', 'low'];
const NORMAL = PRIORITIES.indexOf('normal');

/** Members of dictionaries. */
const priorityMember = { name: 'priority', convert: enumeration(PRIORITIES) };
/** Milliseconds. */
const timeoutMember = { name: 'timeout', convert: enforcedUnsignedLong };

/** How work is to be done; what is absent is as usual. @typedef {{priority?: number, signal?: AbortSignal, timeout?: number}} Schedule */

/** Nothing is unusual. @type {Schedule} */
const USUAL = Object.freeze({});

/**
 * How a run is to be done whose caller leaves something to the context.
 * @param {import('./states').ContextState} context
 * @param {Schedule} given
 * @returns {Schedule}
 */
function scheduleOf(context, given) {
  if (given === USUAL && context.priority === NORMAL && context.timeout === undefined) return USUAL;
  const { priority = context.priority, signal, timeout = context.timeout } = given;
  return { priority: priority === NORMAL ? undefined : priority, signal, timeout };
}

/**
 * Whether anything is unusual.
 * @param {Schedule} schedule
 */
function isScheduled({ priority, signal, timeout }) {
  return priority !== undefined || signal !== undefined || timeout !== undefined;
}

/**
 * @param {Schedule} schedule
 * @param {boolean} [withSteps] whether the times of steps are wanted
 * @returns {number} a handle
 */
function createWatch({ priority = NORMAL, timeout = -1 }, withSteps = false) {
  const watch = native.createWatch(withSteps, priority, timeout);
  if (withSteps) watchSteps(watch);
  return watch;
}

module.exports = { NORMAL, PRIORITIES, USUAL, createWatch, isScheduled, priorityMember, scheduleOf, timeoutMember };
