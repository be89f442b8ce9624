'use strict';

// By how much a process grows that passes memory around which nobody has touched: that takes no room. A copy would touch all of it.

const { ml } = require('../..');
const { BYTES, passAround } = require('../pass-around.js');

async function main() {
  const context = await ml.createContext({ accelerated: false });
  const before = process.memoryUsage.rss();
  await passAround(context, () => {});
  console.log(JSON.stringify({ grown: process.memoryUsage.rss() - before, bytes: BYTES }));
}

main();
