'use strict';

// Keeps promises settling one after the other; prints what a timer saw of it: how many were settled before it first fired.

const { ml } = require('../..');

const scalar = { dataType: 'float32', shape: [] };

const loops = {
  async createContext() {
    const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1 });
    context.destroy();
  },
  async createConstantTensor(context) {
    (await context.createConstantTensor(scalar, new Float32Array(1))).destroy();
  },
};

async function main() {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1 });
  let settled = 0;
  let isOver = false;
  setTimeout(() => {
    isOver = true;
    console.log(settled);
  }, 1);
  // What takes no time is settled without an end as well; so many take longer than any round of the event loop may.
  for (let i = 0; i < 100_000 && !isOver; i++) {
    await loops[process.argv[2]](context);
    settled += 1;
    // As reactions of script's that take a while.
    const end = performance.now() + 0.5;
    while (performance.now() < end);
  }
  if (!isOver) console.log('the timer did not fire');
}

main();
