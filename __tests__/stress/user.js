'use strict';

// Loads a model with a cache and runs it: as a worker again and again until it is ended, as a process three times.

const { isMainThread, parentPort, workerData } = require('node:worker_threads');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { check, feeds } = require('./models.js');

const [, , file, model, cache, seed] = process.argv;
const given = isMainThread ? { file, model: Number(model), cache, seed: Number(seed) } : workerData;

(async () => {
  const context = await ml.createContext({ accelerated: false });
  for (let i = 0; !isMainThread || i < 3; i++) {
    const loaded = await loadOnnx(context, given.file, { cache: given.cache });
    const rows = 1 + ((given.seed + i) % 7);
    check(given.model, given.seed + i, rows, await loaded.run(feeds(given.seed + i, rows)));
    loaded.destroy();
    parentPort?.postMessage('ran');
  }
  context.destroy();
})();
