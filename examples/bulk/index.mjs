// Embeddings of many rows by several worker processes, with BullMQ on a Redis that this program starts:
//
//   node index.mjs --model FOLDER [--input FILE | --rows 1000000] [--workers 2] [--threads N] [--folder bulk] [--redis URL] [--queue NAME] [--job 256]
//                  [--lock 30] [--kill JOBS] [--seed N]
//
// --workers 1,2 runs it with one worker, then with two, each in a folder of its own. --kill ends a worker by SIGKILL whenever so many jobs have ended,
// on average, and starts another one.
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { QueueEvents } from 'bullmq';
import { addRows, connect, openQueue } from './jobs.mjs';
import { startRedis } from './redis.mjs';
import { linesOf, madeUp } from './rows.mjs';
import { openVectors } from './vectors.mjs';
import { Workers, killSometimes } from './workers.mjs';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    input: { type: 'string' },
    rows: { type: 'string', default: '1000000' },
    workers: { type: 'string', default: '2' },
    threads: { type: 'string' },
    folder: { type: 'string', default: 'bulk' },
    redis: { type: 'string' },
    queue: { type: 'string', default: 'embeddings' },
    job: { type: 'string', default: '256' },
    lock: { type: 'string', default: '30' },
    kill: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1e6) },
  },
});
const counts = values.workers.split(',').map(Number);
if (values.model === undefined || ![...counts, Number(values.rows), Number(values.job)].every((count) => Number.isInteger(count) && count >= 1)) {
  console.error('--model FOLDER is needed; --rows, --workers and --job: expected whole numbers from 1');
  process.exit(2);
}

for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(1));
for (const count of counts) await embedAll(count, counts.length === 1 ? values.folder : path.join(values.folder, `workers-${count}`));
process.exit();

async function embedAll(count, folder) {
  mkdirSync(folder, { recursive: true });
  const output = path.join(folder, 'embeddings.npy');
  const redis = values.redis === undefined ? await startRedis(path.join(folder, 'redis')) : { url: values.redis, stop: async () => {} };
  const connections = [connect(redis.url), connect(redis.url)];
  const queue = openQueue(values.queue, connections[0]);
  const events = new QueueEvents(values.queue, { connection: connections[1] });
  let takenOver = 0;
  events.on('stalled', () => takenOver++);
  const workers = new Workers(count, ['--redis', redis.url, '--model', values.model, '--output', output, '--queue', values.queue, '--lock', values.lock, '--threads', threadsOf(count)]);
  const began = performance.now();
  const added = await addRows(queue, values.input === undefined ? madeUp(Number(values.rows)) : linesOf(values.input), Number(values.job));
  console.log(`${added.rows} rows in ${added.jobs} jobs, ${count} worker${count === 1 ? '' : 's'}`);
  const killer = values.kill === undefined ? undefined : killSometimes(workers, Number(values.kill), Number(values.seed), events);
  const { completed, failed } = await whenDone(queue, added, began);
  const seconds = (performance.now() - began) / 1000;
  const kills = killer?.stop() ?? 0;
  await workers.stop();
  const vectors = await openVectors(output);
  const { missing, width } = await vectors.finish(added.rows);
  await vectors.close();
  if (kills > 0) console.log(`${kills} workers were killed, ${takenOver} jobs taken over`);
  console.log(`${output}: ${added.rows} rows of ${width}, ${missing} missing; ${completed} of ${added.jobs} jobs completed, ${failed} failed`);
  console.log(`${count} worker${count === 1 ? '' : 's'}: ${(added.rows / seconds).toFixed(0)} rows per second, ${seconds.toFixed(1)} s`);
  if (missing > 0 || failed > 0 || completed !== added.jobs) process.exitCode = 1;
  await events.close();
  await queue.close();
  for (const connection of connections) connection.disconnect();
  await redis.stop();
}

/** The cores are divided among the workers. */
function threadsOf(count) {
  return values.threads ?? String(Math.max(1, Math.floor(availableParallelism() / count)));
}

/** Waits until every job has ended, and says now and then how far it is. */
async function whenDone(queue, { jobs, rows }, began) {
  let reported = performance.now();
  for (;;) {
    const { completed = 0, failed = 0 } = await queue.getJobCounts('completed', 'failed');
    if (completed + failed >= jobs) return { completed, failed };
    if (performance.now() - reported > 10_000) {
      reported = performance.now();
      console.log(`${((100 * completed) / jobs).toFixed(1)} %, ${((completed / jobs) * rows / ((reported - began) / 1000)).toFixed(0)} rows per second`);
    }
    await wait(100);
  }
}
