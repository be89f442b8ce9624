'use strict';

// While a network runs, the event loop goes on. Prints how often it came around, and how late a 1 ms timer was.

const { setTimeout: sleep } = require('node:timers/promises');
const { long, open } = require('./work.js');

const TURNS = 200;

async function main() {
  const context = await open();
  let over = false;
  const [read] = await long.dispatch(context);
  read.then(
    () => (over = true),
    () => (over = true),
  );
  const gaps = [];
  let before = performance.now();
  for (let turn = 0; turn < TURNS && !over; turn++) {
    await sleep(1);
    const now = performance.now();
    gaps.push(now - before);
    before = now;
  }
  gaps.sort((a, b) => a - b);
  console.log(JSON.stringify({ over, turns: gaps.length, median: gaps[gaps.length >> 1], longest: gaps.at(-1) }));
  context.destroy();
}

main();
