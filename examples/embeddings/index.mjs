// A server that answers with sentence embeddings: node index.mjs [--model FOLDER] [--port 8080] [--threads N]
import { setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Batches } from './batches.mjs';
import { loadEmbedder } from './embedder.mjs';
import { Latency } from './latency.mjs';

const MOST_BYTES = 1 << 20;
const MOST_TEXTS = 256;

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const { values } = parseArgs({ options: { model: { type: 'string' }, port: { type: 'string' }, threads: { type: 'string' } } });
const folder = values.model ?? path.join(path.dirname(fileURLToPath(import.meta.url)), 'model');
const embedder = await loadEmbedder(folder, { threads: values.threads && Number(values.threads) });
const batches = new Batches(embedder.embed);
const latency = new Latency();
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MOST_BYTES) throw new Refusal(413, `a body of more than ${MOST_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function textsOf(body) {
  let value;
  try {
    value = JSON.parse(body);
  } catch {
    throw new Refusal(400, 'the body is no JSON');
  }
  const texts = value?.texts;
  if (!Array.isArray(texts) || texts.length === 0 || !texts.every((text) => typeof text === 'string')) {
    throw new Refusal(400, '"texts": allowed an array of strings');
  }
  if (texts.length > MOST_TEXTS) throw new Refusal(413, `"texts": found ${texts.length}, allowed at most ${MOST_TEXTS}`);
  return texts;
}

async function answer(request, signal) {
  const { pathname } = new URL(request.url, 'http://localhost');
  if (pathname === '/status' && request.method === 'GET') {
    return {
      answers: latency.count,
      waiting: batches.waiting,
      cancelled: batches.cancelled,
      milliseconds: { p50: latency.percentile(0.5), p99: latency.percentile(0.99) },
      eventLoopDelay: { p99: delay.percentile(99) / 1e6 },
    };
  }
  if (pathname !== '/embeddings' || request.method !== 'POST') throw new Refusal(404, 'there are POST /embeddings and GET /status');
  const start = performance.now();
  const texts = textsOf(await readBody(request));
  if (!batches.hasRoomFor(texts.length)) throw new Refusal(503, 'too many texts are waiting');
  const vectors = await Promise.all(texts.map((text) => {
    const tokens = embedder.encode(text);
    return batches.add(tokens, tokens.length, signal);
  }));
  latency.add(performance.now() - start);
  return { embeddings: vectors.map((vector) => Array.from(vector)) };
}

const server = createServer(async (request, response) => {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  // Each text listens.
  setMaxListeners(0, gone.signal);
  const send = (status, result) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(result));
  try {
    send(200, await answer(request, gone.signal));
  } catch (error) {
    if (gone.signal.aborted) return;
    const { status = 500 } = error;
    if (status === 500) console.error(error);
    send(status, { error: error.message });
  }
});

server.listen(Number(values.port ?? 8080), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
process.once('SIGTERM', () => server.close(() => embedder.dispose()));
