'use strict';

const native = require('./native.js');
const { emitWarning } = require('./warnings.js');

/** What the contexts of this process share: docs/servers.md. */
let known;

function cores() {
  known ??= native.cores();
  return known;
}

/**
 * Whether the threads of a context leave a core to script, which then may work beside them.
 * @param {number} numThreads 0 for all that there are
 */
function leavesCore(numThreads) {
  return numThreads > 0 && numThreads < cores();
}

/**
 * Tells that a context has more threads than there are cores: they take turns then.
 * @param {number} numThreads 0 for all that there are
 */
function warnOfFewerCores(numThreads) {
  if (numThreads === 0 || numThreads <= cores()) return;
  emitWarning('WEBNN_FEWER_CORES', `numThreads: found ${numThreads} threads, but this process may use only ${cores()} cores`);
}

module.exports = { cores, leavesCore, warnOfFewerCores };
