// One engine: node child.mjs ENGINE MODEL TEXTS THREADS. Writes a line of JSON for what it did with the texts, one with the port of its
// server, and one for each line that it reads.
import { createServer } from 'node:http';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile, texts as make } from './texts.mjs';

const [, , engine, folder, count, threads] = process.argv;
if (engine === 'webnn-node') await import('../../lib/transformers.mjs');
const { env, pipeline } = await import('@huggingface/transformers');

const say = (value) => console.log(JSON.stringify(value));
const RESOLUTION = 1;
const delay = monitorEventLoopDelay({ resolution: RESOLUTION });
delay.enable();
/** Beyond the timer's own interval. */
const delayed = () => Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION);

env.allowRemoteModels = false;
env.localModelPath = `${path.dirname(folder)}/`;
const embed = await pipeline('feature-extraction', path.basename(folder), {
  device: engine === 'webnn-node' ? 'auto' : 'cpu',
  dtype: 'fp32',
  session_options: threads === '' ? {} : { intraOpNumThreads: Number(threads) },
});
const OPTIONS = { pooling: 'mean', normalize: true };
const texts = make(Number(count));

async function timed(list) {
  delay.reset();
  const times = [];
  const start = performance.now();
  for (const input of list) {
    const begin = performance.now();
    await embed(input, OPTIONS);
    times.push(performance.now() - begin);
  }
  const seconds = (performance.now() - start) / 1000;
  times.sort((a, b) => a - b);
  return { throughput: texts.length / seconds, p50: percentile(times, 0.5), p99: percentile(times, 0.99), delay: delayed() };
}

for (const text of texts.slice(0, 5)) await embed(text, OPTIONS);
const single = await timed(texts);
const batches = Array.from({ length: Math.ceil(texts.length / 32) }, (_, i) => texts.slice(32 * i, 32 * i + 32));
const batched = await timed(batches);
say({ single, batched });

const server = createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    const vectors = await embed(Buffer.concat(parts).toString(), OPTIONS);
    response.end(JSON.stringify(Array.from(vectors.data)));
  });
});
server.listen(0, '127.0.0.1', () => say({ port: server.address().port }));

for await (const line of createInterface(process.stdin)) {
  if (line === 'reset') {
    delay.reset();
    say({});
  } else if (line === 'report') say({ delay: delayed() });
  else if (line === 'idle') {
    const resident = process.memoryUsage.rss() / 2 ** 20;
    delay.disable();
    const before = process.cpuUsage();
    await sleep(2000);
    const { user, system } = process.cpuUsage(before);
    say({ resident, idle: (user + system) / 2e6 * 100 });
  } else break;
}
process.exit();
