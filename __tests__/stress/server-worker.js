'use strict';

// A worker whose clients do what those of the main thread do, until it is ended.

const { parentPort, workerData } = require('node:worker_threads');
const { ServerSoak } = require('./server.js');

(async () => {
  const soak = new ServerSoak(workerData.seed, workerData.folder);
  await soak.start();
  parentPort.postMessage('started');
  for (;;) await soak.step();
})();
