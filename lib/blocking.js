'use strict';

// Methods that block the calling thread. They need a thread that may be blocked (docs/extensions.md D4), and a context that works on another
// thread: a GPUDevice works on this one.

const { isMainThread } = require('node:worker_threads');
const { exception, invalidState, named } = require('./errors.js');

/**
 * @param {string} operator
 * @param {import('./states').ContextState} context
 */
function requireImmediate(operator, { gpuDevice }) {
  if (gpuDevice === undefined) return;
  throw exception('NotSupportedError', `${named(operator, '')}: found a context on a GPUDevice, whose results need the event loop, allowed any other context`);
}

/**
 * @param {string} operator
 * @param {import('./states').ContextState} context
 */
function requireBlocking(operator, context) {
  requireImmediate(operator, context);
  if (!isMainThread) return;
  throw invalidState(operator, '', 'on the main thread it would block the event loop; it is allowed in worker_threads only');
}

const WITHOUT_IMMEDIATE = Object.freeze(['awaited', 'queued', 'timeline']);
const ALL = Object.freeze(['immediate', 'awaited', 'queued', 'timeline']);

/**
 * `MLContext.executionModes`
 * @param {import('./states').ContextState} context
 */
function executionModes({ gpuDevice }) {
  return isMainThread || gpuDevice !== undefined ? WITHOUT_IMMEDIATE : ALL;
}

module.exports = { executionModes, requireBlocking, requireImmediate };
