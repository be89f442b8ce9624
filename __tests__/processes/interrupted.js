'use strict';

// interrupted.js <work> <end>: ends the process in the middle of work.

const { setTimeout: sleep } = require('node:timers/promises');
const { long, open } = require('./work.js');

const ends = {
  exit: () => process.exit(3),
  throw: () => {
    setImmediate(() => {
      throw new Error('thrown on purpose');
    });
  },
};

async function main([work, end]) {
  const context = await open();
  const idle = await open();
  globalThis.kept = [idle, await long[work](context)];
  // Into the middle of it. Should it be over already, then the test is only weaker.
  await sleep(50);
  console.log('in the middle');
  ends[end]();
}

main(process.argv.slice(2));
