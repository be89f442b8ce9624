// Takes jobs until it is told to end: node worker.mjs --redis URL --model FOLDER --output FILE [--queue NAME] [--threads N] [--lock SECONDS]
//
// A job is done when its vectors are on the disk. What a killed worker has not finished another one does again, to the same places of the file.
import { parseArgs } from 'node:util';
import { Worker } from 'bullmq';
import { loadEmbedder } from './embedder.mjs';
import { connect, workerOptions } from './jobs.mjs';
import { openVectors } from './vectors.mjs';

const { values } = parseArgs({
  options: {
    redis: { type: 'string' },
    model: { type: 'string' },
    output: { type: 'string' },
    queue: { type: 'string', default: 'embeddings' },
    threads: { type: 'string' },
    lock: { type: 'string', default: '30' },
  },
});
const embedder = await loadEmbedder(values.model, { threads: values.threads && Number(values.threads) });
const vectors = await openVectors(values.output);

async function work({ data: { first, texts } }) {
  await vectors.write(first, await embedder.embed(texts));
}

// Two at a time: one is tokenized or written while the other is computed.
const worker = new Worker(values.queue, work, { connection: connect(values.redis), concurrency: 2, ...workerOptions(Number(values.lock)) });
worker.on('error', (error) => console.error(`worker ${process.pid}: ${error.message}`));

/** Jobs that it has are finished before it ends. */
async function end() {
  await worker.close();
  await vectors.close();
  embedder.close();
  process.exit();
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, end);
// Whoever has started it is gone.
process.once('disconnect', end);
