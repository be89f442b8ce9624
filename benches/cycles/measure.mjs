// The child of cycles.mjs. Its line on stdout is JSON.
//
//   node --expose-gc benches/cycles/measure.mjs SETTINGS process|workers MODEL
//   node --expose-gc benches/cycles/measure.mjs SETTINGS burst
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { cycle, newContext } from './cycle.mjs';
import { writeBurst } from './burst.mjs';
import resident from '../../__tests__/stress/resident.js';

const [text, what, file] = process.argv.slice(2);
const settings = JSON.parse(text);
/** What is kept for a while after work has gone by then. */
const PAUSE = 5000;
/** V8 gives pages back a while after it has collected what was in them. */
const LATER = 2000;
/** After so many cycles all that comes with the first ones is there. */
const FIRST = 3;

async function settled() {
  globalThis.gc();
  await setTimeout(PAUSE - LATER);
  globalThis.gc();
  await setTimeout(LATER);
  const { others, ...kinds } = resident.residentByKind();
  // V8 counts what it has reserved, of which some has never been used.
  const heap = Math.min(others, process.memoryUsage().heapTotal);
  return { ...kinds, v8: heap, others: others - heap };
}

async function cycles(one) {
  let before;
  for (let i = 0; i < settings.cycles; i++) {
    await one();
    if (i === FIRST - 1) before = await settled();
  }
  return { before, after: await settled() };
}

async function inWorker() {
  const worker = new Worker(new URL('cycle.mjs', import.meta.url), { workerData: { file, settings } });
  const [code] = await once(worker, 'exit');
  if (code !== 0) throw new Error(`a worker ended with ${code}`);
}

const found = await {
  process: async () => {
    const context = await newContext(settings);
    return await cycles(() => cycle(context, file, settings));
  },
  workers: () => cycles(inWorker),
  burst: () => writeBurst(settings, settled),
}[what]();
console.log(JSON.stringify(found));
