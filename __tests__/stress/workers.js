'use strict';

// Eight threads under load at once, each ended at a random moment, and again.

const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { generator } = require('./random.js');

const AT_ONCE = 8;

/** One round: starts the threads and ends them; rejects when one fails by itself. */
async function runRound(seed, longestMs) {
  const random = generator(seed);
  await Promise.all(
    Array.from({ length: AT_ONCE }, (_, i) => {
      const worker = new Worker(path.join(__dirname, 'worker.js'), { workerData: { seed: seed * AT_ONCE + i } });
      // Some are ended before they have begun.
      const delay = random(5) === 0 ? random(20) : random(longestMs);
      return new Promise((resolve, reject) => {
        worker.once('error', reject);
        setTimeout(() => worker.terminate().then(resolve, reject), delay);
      });
    }),
  );
}

module.exports = { AT_ONCE, runRound };
