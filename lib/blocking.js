'use strict';

// Methods that block the calling thread are for threads that may be blocked (docs/extensions.md D4).

const { isMainThread } = require('node:worker_threads');
const { invalidState } = require('./errors.js');

function requireWorker(operator) {
  if (!isMainThread) return;
  throw invalidState(operator, '', 'it blocks the thread that calls it, and on the main thread that would stop the event loop; it is allowed in worker_threads only');
}

/** `MLContext.executionModes` */
const executionModes = Object.freeze(isMainThread ? ['awaited', 'queued', 'timeline'] : ['immediate', 'awaited', 'queued', 'timeline']);

module.exports = { executionModes, requireWorker };
