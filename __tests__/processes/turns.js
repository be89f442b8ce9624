'use strict';

// Keeps promises settling, one after the other or 1,000 that were asked for together; prints what a timer saw of it: how many were
// settled before it first fired, or at most between one time and the next, of the first half and of the second.

const { ml } = require('../..');
const { buildAdder, float32 } = require('../adder.js');

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

/** As reactions of script's that take a while. */
function react() {
  const end = performance.now() + 0.5;
  while (performance.now() < end);
}

async function together(context) {
  const graph = await buildAdder(context, float32(4));
  let settled = 0;
  let before = 0;
  const most = [0, 0];
  const look = () => {
    const half = before < 500 ? 0 : 1;
    most[half] = Math.max(most[half], settled - before);
    before = settled;
  };
  const timer = setInterval(look, 1);
  const compute = () => context.compute(graph, { a: new Float32Array(4), b: new Float32Array(4) }, { c: new Float32Array(4) });
  await Promise.all(
    Array.from({ length: 1000 }, () =>
      compute().then(() => {
        settled += 1;
        react();
      }),
    ),
  );
  clearInterval(timer);
  look();
  console.log(JSON.stringify(most));
}

async function main() {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1 });
  if (process.argv[2] === 'together') return together(context);
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
    react();
  }
  if (!isOver) console.log('the timer did not fire');
  return undefined;
}

main();
