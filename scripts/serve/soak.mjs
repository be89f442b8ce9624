// node scripts/serve/soak.mjs [SECONDS]: a server under load for ten minutes, or so many seconds. Clients of REST and gRPC call it, hang up and send
// nonsense; models are swapped, unloaded and loaded; now and then the process is drained or killed and started again. Each answer must be right, or one
// of the refusals that its moment allows; a drain must end with 0; and memory must not grow.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { inRepository } from '../repository.mjs';

const require = createRequire(import.meta.url);
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const { fill, twice } = require('../../__tests__/serve/folder.js');

const seconds = Number(process.argv[2] ?? 600);
const [httpPort, grpcPort] = [18_000, 18_001];
const origin = `http://127.0.0.1:${httpPort}`;
const CLIENTS = 8;
const PERIOD = 20_000;

const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-soak-'));
fill(folder);
const { inference } = grpc.loadPackageDefinition(protoLoader.loadSync(inRepository('packages', 'serve', 'lib', 'grpc', 'inference.proto'), { keepCase: true, longs: String, defaults: true, oneofs: true }));

const counts = new Map();
const failures = [];
const memories = [];
let isOver = false;
/** Whether a request may find no server, or lose it. */
let isDown = false;

const count = (what) => counts.set(what, (counts.get(what) ?? 0) + 1);
const fail = (what) => {
  failures.push(what);
  console.error(`FAIL ${what}`);
};
const random = (most) => Math.floor(Math.random() * most);
/** What a swapped model may answer for 3 and 5. */
const isRight = (data) => ['6,10', '9,25'].includes(String(data));

async function start() {
  const child = spawn(process.execPath, [inRepository('bin', 'webnn-node.js'), 'serve', folder, '--port', String(httpPort), '--grpc-port', String(grpcPort), '--max-in-flight', '32'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  for await (const line of createInterface(child.stdout)) if (JSON.parse(line).msg === 'ready') break;
  child.stdout.resume();
  isDown = false;
  return { child, ended };
}

const swapped = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [3, 5] }] };

async function callRest() {
  const response = await fetch(`${origin}/v2/models/double/infer`, { method: 'POST', body: JSON.stringify(swapped) });
  const body = await response.json();
  if (response.status !== 200) return refusedWith(response.status, body.error);
  return isRight(body.outputs[0].data) ? 'REST' : fail(`REST answered ${body.outputs[0].data}`);
}

const client = new inference.GRPCInferenceService(`127.0.0.1:${grpcPort}`, grpc.credentials.createInsecure(), { 'grpc.initial_reconnect_backoff_ms': 50, 'grpc.max_reconnect_backoff_ms': 100 });
const bytes = Buffer.from(Float32Array.of(3, 5).buffer);

async function callGrpc() {
  const request = { model_name: 'double', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2] }], raw_input_contents: [bytes] };
  const [error, response] = await new Promise((resolve) => {
    client.ModelInfer(request, (...answer) => resolve(answer));
  });
  if (error === null) return isRight([response.raw_output_contents[0].readFloatLE(0), response.raw_output_contents[0].readFloatLE(4)]) ? 'gRPC' : fail('gRPC answered something else');
  const status = { [grpc.status.RESOURCE_EXHAUSTED]: 429, [grpc.status.UNAVAILABLE]: 503 }[error.code];
  return refusedWith(status, error.details);
}

/** The server may always be full; it may be down, or know that it will be, when this program ends it. */
function refusedWith(status, reason) {
  if (status === 429) return 'full';
  // The client has not tried again since then.
  if (isDown || reason.startsWith('No connection established')) return 'down';
  return fail(`refused with ${status}: ${reason}`);
}

/** Begins a request and hangs up, at any time. */
async function hangUp() {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] });
  const request = http.request(`${origin}/v2/models/slow/infer`, { method: 'POST', agent: false, headers: { 'content-length': body.length } }).on('error', () => {});
  const closed = new Promise((resolve) => {
    request.on('close', resolve);
  });
  request.write(body.slice(0, random(body.length + 1)));
  await wait(random(200));
  request.destroy();
  await closed;
  return 'hung up';
}

/** With a length of 0 zeros would be a request. */
async function nonsense() {
  const bodies = ['{', '[]', '{"inputs":[{}]}', JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [2 ** 40, 2 ** 40], data: [] }] }), '\0'.repeat(1000)];
  const headers = random(2) ? { 'inference-header-content-length': String(random(2000) - 500 || 1) } : {};
  const { status } = await fetch(`${origin}/v2/models/double/infer`, { method: 'POST', headers, body: bodies[random(bodies.length)] });
  return status === 400 || status === 413 ? 'nonsense' : refusedWith(status, 'nonsense');
}

async function work() {
  while (!isOver) {
    const one = [callRest, callRest, callGrpc, callGrpc, hangUp, nonsense][random(6)];
    try {
      count(await one());
    } catch (error) {
      if (isDown) count('down');
      else fail(`${one.name}: ${error.cause?.message ?? error.message}`);
      await wait(50);
    }
  }
}

/** Swaps one model, and unloads and loads another. */
async function change() {
  for (let i = 0; !isOver; i++) {
    await wait(500);
    try {
      const file = path.join(folder, 'double.onnx');
      writeFileSync(`${file}.new`, twice(i % 2 ? 'Add' : 'Mul'));
      renameSync(`${file}.new`, file);
      for (const url of ['double/load', 'versions/unload', 'versions/load']) {
        const { status } = await fetch(`${origin}/v2/repository/models/${url}`, { method: 'POST' });
        if (status !== 200) refusedWith(status, url);
      }
      count('swaps');
    } catch (error) {
      if (!isDown) fail(`swap: ${error.cause?.message ?? error.message}`);
    }
  }
}

async function memory() {
  const text = await (await fetch(`${origin}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)[1]) / 2 ** 20;
}

let server = await start();
const workers = [...Array.from({ length: CLIENTS }, work), change()];
const end = performance.now() + seconds * 1000;
for (let i = 0; performance.now() < end; i++) {
  await wait(Math.min(PERIOD / 2, end - performance.now()));
  const early = await memory();
  await wait(Math.max(0, Math.min(PERIOD / 2, end - performance.now())));
  memories.push([early, await memory()]);
  isDown = true;
  server.child.kill(i % 2 ? 'SIGKILL' : 'SIGTERM');
  const [code, signal] = await server.ended;
  count(signal ?? 'drained');
  if (signal === null && code !== 0) fail(`it ended with ${code}`);
  if (performance.now() < end) server = await start();
}
isOver = true;
await Promise.all(workers);
rmSync(folder, { recursive: true });

const growth = memories.map(([early, late]) => late - early);
console.log(Object.fromEntries(counts));
console.log(`memory at half and at the end of each process, MiB: ${memories.map((pair) => pair.map((one) => one.toFixed(0)).join(' → ')).join(', ')}`);
// Garbage comes and goes; what leaks does so in every process.
if (Math.min(...growth) > 50) fail(`memory grows by ${growth.map((one) => one.toFixed(0)).join(', ')} MiB`);
console.log(`${[...counts.values()].reduce((sum, one) => sum + one, 0)} passed, ${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);
