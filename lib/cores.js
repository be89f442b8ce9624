'use strict';

const os = require('node:os');

const cores = os.availableParallelism();

/**
 * Whether the threads of a context leave a core to script, which then may work beside them.
 * @param {number} numThreads 0 for all that there are
 */
function leavesCore(numThreads) {
  return numThreads > 0 && numThreads < cores;
}

module.exports = { leavesCore };
