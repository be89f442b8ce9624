// transformers.js on webnn-node beside onnxruntime-node: embeddings of texts of different lengths, and a server of them.
//
//   npm run bench -- transformers --model examples/embeddings/model [--texts 1000] [--seconds 10] [--rounds 1] [--threads N] [--json FILE]
//
// Each engine in processes of its own, in turn. benches/README.md says how to read the figures.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load } from './load.mjs';
import { percentile, texts as make } from './texts.mjs';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    texts: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '1' },
    clients: { type: 'string', default: '1,8,32' },
    threads: { type: 'string' },
    json: { type: 'string' },
  },
});
const ENGINES = ['webnn-node', 'onnxruntime-node'];
const require = createRequire(import.meta.url);
const CHILD = path.join(path.dirname(fileURLToPath(import.meta.url)), 'child.mjs');

/** One process: what it did with the texts, then the server. */
async function measure(engine) {
  const child = spawn(process.execPath, [CHILD, engine, path.resolve(values.model), values.texts, values.threads ?? ''], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${engine} ended early`);
    return JSON.parse(value);
  };
  const found = { engine, ...(await next()), server: {} };
  const { port } = await next();
  const list = make(256, 7);
  for (const clients of values.clients.split(',').map(Number)) {
    child.stdin.write('reset\n');
    await next();
    const load1 = await load(port, list, clients, Number(values.seconds));
    child.stdin.write('report\n');
    found.server[clients] = { ...load1, ...(await next()) };
  }
  child.stdin.write('idle\n');
  Object.assign(found, await next());
  child.stdin.end('exit\n');
  await ended;
  return found;
}

const results = [];
for (let round = 0; round < Number(values.rounds); round++) {
  for (const engine of round % 2 === 0 ? ENGINES : [...ENGINES].reverse()) results.push(await measure(engine));
}

const middle = (list) => percentile([...list].sort((a, b) => a - b), 0.5);
const rows = [
  ['texts/s, one by one', (r) => r.single.throughput, 1],
  ['p50 of one, ms', (r) => r.single.p50, 2],
  ['p99 of one, ms', (r) => r.single.p99, 2],
  ['texts/s, batches of 32', (r) => r.batched.throughput, 1],
  ['event-loop delay p99, ms', (r) => r.batched.delay, 2],
  ...values.clients.split(',').flatMap((clients) => [
    [`server, ${clients} clients: answers/s`, (r) => r.server[clients].throughput, 1],
    [`server, ${clients} clients: p50, ms`, (r) => r.server[clients].p50, 2],
    [`server, ${clients} clients: p99, ms`, (r) => r.server[clients].p99, 2],
    [`server, ${clients} clients: event-loop delay p99, ms`, (r) => r.server[clients].delay, 2],
  ]),
  ['resident memory, MiB', (r) => r.resident, 0],
  ['processor time while idle, %', (r) => r.idle, 2],
];
const versions = Object.fromEntries(['@huggingface/transformers', 'onnxruntime-node', 'webnn-node'].map((name) => {
  const file = name === 'webnn-node' ? '../../package.json' : path.join('..', '..', 'node_modules', name, 'package.json');
  return [name, require(file).version];
}));
console.log(`${os.cpus()[0].model.trim()}, ${os.availableParallelism()} cores, Node ${process.versions.node}; ${Object.entries(versions).map((entry) => entry.join(' ')).join(', ')}`);
console.log(`${values.texts} texts, ${values.seconds} s for each number of clients, threads: ${values.threads ?? 'as each engine likes'}\n`);
console.log('| | webnn-node | onnxruntime-node | ratio |\n| --- | ---: | ---: | ---: |');
for (const [name, of, digits] of rows) {
  const [ours, theirs] = ENGINES.map((engine) => middle(results.filter((result) => result.engine === engine).map(of)));
  console.log(`| ${name} | ${ours.toFixed(digits)} | ${theirs.toFixed(digits)} | ${(ours / theirs).toFixed(2)} |`);
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify({ versions, results }, undefined, 2));
