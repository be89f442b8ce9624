// Inferences over HTTP and gRPC for 1, 8 and 64 clients: `webnn-node serve` with and without joined runs, the same with fastify on onnxruntime-node,
// MLServer on onnxruntime, and another server of the Open Inference Protocol, in turn. With --overhead: what the server adds to a run.
//
//   npm run bench -- serving --model FILE.onnx [--shape NAME=1x128 …] [--clients 1,8,64] [--seconds 5] [--rounds 3] [--mlserver COMMAND] [--beside URL]
//   npm run bench -- serving --overhead
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';
import { load, machine, memoryOf } from './machine.mjs';
import { binaryRequest, grpcClient, jsonRequest, measure, restClient } from './serving/clients.mjs';
import { measureOverhead } from './serving/overhead.mjs';
import { inRepository, startMlserver, startNode, startServe } from './serving/start.mjs';
import { median } from './statistics.mjs';

const require = createRequire(import.meta.url);
const { datatypes } = require('../packages/serve/lib/datatypes.js');

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    shape: { type: 'string', multiple: true, default: [] },
    clients: { type: 'string', default: '1,8,64' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    mlserver: { type: 'string' },
    beside: { type: 'string' },
    overhead: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const clients = values.clients.split(',').map(Number);
const [seconds, rounds] = [values.seconds, values.rounds].map(Number);
if (![...clients, rounds].every((count) => Number.isInteger(count) && count >= 1) || !(seconds > 0)) {
  console.error('--clients and --rounds: expected whole numbers from 1; --seconds: a number above 0');
  process.exit(2);
}
if (values.model === undefined && !values.overhead) {
  console.error('--model FILE.onnx is missing');
  process.exit(2);
}
const { threads } = values;
const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${threads} threads`);
const measured = values.overhead ? await measureOverhead({ seconds, rounds, threads }) : await measureSides();
console.log(`load at the end: ${load().toFixed(2)}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, values, measured }, null, 2)}\n`);
process.exit();

/** All servers, and how they are called. Every second round starts with the last one. */
async function measureSides() {
  const ways = await startAll();
  const found = Object.fromEntries(Object.keys(ways).map((way) => [way, Object.fromEntries(clients.map((count) => [count, []]))]));
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? Object.keys(ways) : Object.keys(ways).reverse();
    for (const count of clients) {
      for (const way of order) {
        const { make, pid } = ways[way];
        // Plans are made before anything is counted.
        if (round === 0) await measure(make, count, 1);
        found[way][count].push({ ...(await measure(make, count, seconds)), memory: memoryOf(pid) });
      }
    }
  }
  show(found);
  return found;
}

async function startAll() {
  const joined = await startServe(values.model, threads);
  const alone = await startServe(values.model, threads, '--max-batch', '1');
  const onnxruntime = await startNode([inRepository('benches/serving/onnxruntime.mjs'), values.model, threads]);
  const tensors = await makeInputs(joined);
  const [binary, json] = [binaryRequest(tensors), jsonRequest(tensors)];
  const rest = (side, request = binary) => ({ pid: side.pid, make: () => restClient(side, request) });
  const rpc = (side) => ({ pid: side.pid, make: () => grpcClient(side, tensors) });
  const ways = { joined: rest(joined), alone: rest(alone), onnxruntime: rest(onnxruntime), 'joined, gRPC': rpc(joined), 'alone, gRPC': rpc(alone) };
  if (values.mlserver !== undefined) {
    const [single, batched] = [await startMlserver(values.mlserver, values.model, threads, 0), await startMlserver(values.mlserver, values.model, threads, 16)];
    // It does not read binary data over REST.
    Object.assign(ways, { 'MLServer, JSON': rest(single, json), 'MLServer, gRPC': rpc(single), 'MLServer joined, gRPC': rpc(batched), 'joined, JSON': rest(joined, json) });
  }
  if (values.beside !== undefined) ways.beside = rest({ url: values.beside.replace(/\/+$/, '') });
  return ways;
}

/** Inputs of the shapes that were asked for. Open dimensions are 1 otherwise. */
async function makeInputs({ url }) {
  const about = await (await fetch(`${url}/v2/models/model`)).json();
  const shapes = new Map(values.shape.map((text) => text.split('=')).map(([name, sizes]) => [name, sizes.split('x').map(Number)]));
  return about.inputs.map(({ name, datatype, shape }) => {
    const sizes = shapes.get(name) ?? shape.map((size) => (size === -1 ? 1 : size));
    const { Wire } = datatypes[datatype];
    const count = sizes.reduce((all, size) => all * size, 1);
    const isWide = Wire === BigInt64Array || Wire === BigUint64Array;
    const value = (i) => (/mask/.test(name) ? 1 : /type/.test(name) ? 0 : datatype === 'FP32' ? ((i * 7919) % 1000) / 500 - 1 : (i * 7919) % 1000);
    const elements = Wire.from({ length: count }, (_, i) => (isWide ? BigInt(value(i)) : value(i)));
    return { name, datatype, shape: sizes, bytes: Buffer.from(elements.buffer) };
  });
}

function show(found) {
  for (const count of clients) {
    console.log(`\n${count} client${count === 1 ? '' : 's'}`);
    for (const [way, results] of Object.entries(found)) {
      const of = (key) => median(results[count].map((one) => one[key]));
      console.log(`  ${way.padEnd(21)} ${of('perSecond').toFixed(1).padStart(9)} per second   p50 ${of('p50').toFixed(2).padStart(8)} ms   p99 ${of('p99').toFixed(2).padStart(8)} ms   ${of('memory').toFixed(0).padStart(5)} MiB`);
    }
  }
}
