'use strict';

// A worker that runs random programs until it is ended.

const { parentPort, workerData } = require('node:worker_threads');
const webnn = require('../..');
const { runProgram } = require('./programs.js');

(async () => {
  parentPort.postMessage('started');
  for (let seed = workerData.seed; ; seed++) await runProgram(webnn, seed, 100);
})();
