'use strict';

// cached.js MODEL WIDTH [CACHE]: loads a model, runs it, and says what came of it and of the cache. It ends when its input does.

const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const native = require('../../lib/native.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { open } = require('./work.js');

/** Of the files of the cache that are mapped: the bytes resident, and those that count for this process alone. */
function mapped() {
  if (process.platform !== 'linux') return undefined;
  const sum = { rss: 0, pss: 0 };
  const maps = readFileSync('/proc/self/smaps', 'latin1').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  for (const map of maps.filter((map) => /\.packed\n/.test(map))) {
    for (const name of ['rss', 'pss']) sum[name] += 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'im').exec(map)[1]);
  }
  return sum;
}

/** How many bytes the process has read, which are not mapped. */
function read() {
  return process.platform === 'linux' ? Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))[1]) : NaN;
}

async function main() {
  const [model, width, cache] = process.argv.slice(2);
  const context = await open({ numThreads: 1 });
  const before = read();
  const loaded = await loadOnnx(context, model, { cache });
  const { y } = await loaded.run({ x: Float32Array.from({ length: Number(width) }, (_, i) => Math.cos(i)) });
  const weights = read() - before;
  native.finishCache();
  const digest = createHash('sha256').update(y.data).digest('hex');
  console.log(JSON.stringify({ digest, state: native.cacheState(), mapped: mapped(), read: weights }));
  // Others may want to look at the same pages meanwhile.
  process.stdin.resume();
}

main();
