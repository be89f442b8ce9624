// Inferences over HTTP and gRPC for 1, 8 and 64 clients: `webnn-node serve` with and without joined runs, the same with fastify on onnxruntime-node,
// and another server of the Open Inference Protocol, in turn.
//
//   npm run bench -- serving --model FILE.onnx [--shape NAME=1x128 …] [--clients 1,8,64] [--seconds 5] [--rounds 3] [--beside URL] [--json FILE]
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine } from './machine.mjs';
import { median, quantile } from './statistics.mjs';

const require = createRequire(import.meta.url);
const { datatypes } = require('../packages/serve/lib/datatypes.js');
const inRepository = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    shape: { type: 'string', multiple: true, default: [] },
    clients: { type: 'string', default: '1,8,64' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    beside: { type: 'string' },
    json: { type: 'string' },
  },
});
const clients = values.clients.split(',').map(Number);
const [seconds, rounds] = [values.seconds, values.rounds].map(Number);
if (![...clients, rounds].every((count) => Number.isInteger(count) && count >= 1) || !(seconds > 0)) {
  console.error('--clients and --rounds: expected whole numbers from 1; --seconds: a number above 0');
  process.exit(2);
}

const serve = (...more) => [inRepository('bin/webnn-node.js'), 'serve', values.model, '--name', 'model', '--port', '0', '--grpc-port', '0', '--threads', values.threads, ...more];
const programs = {
  joined: serve(),
  alone: serve('--max-batch', '1'),
  onnxruntime: [inRepository('benches/serving/onnxruntime.mjs'), values.model, values.threads],
};
const started = [];
process.once('exit', () => started.forEach((child) => child.kill('SIGKILL')));
const sides = {};
for (const [name, args] of Object.entries(programs)) sides[name] = await start(args);
if (values.beside !== undefined) sides.beside = { url: values.beside.replace(/\/+$/, '') };
const inputs = await makeInputs();
const request = bodyOf(inputs);
const ways = { ...Object.fromEntries(Object.entries(sides).map(([name, side]) => [name, () => restClient(side)])), 'joined, gRPC': () => grpcClient(sides.joined) };

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${values.threads} threads`);
const measured = Object.fromEntries(Object.keys(ways).map((way) => [way, Object.fromEntries(clients.map((count) => [count, []]))]));
for (let round = 0; round < rounds; round++) {
  const order = round % 2 === 0 ? Object.keys(ways) : Object.keys(ways).reverse();
  for (const count of clients) {
    for (const way of order) {
      // Plans are made before anything is counted.
      if (round === 0) await measure(ways[way], count, 1);
      measured[way][count].push(await measure(ways[way], count, seconds));
    }
  }
}
show();
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, values, measured }, null, 2)}\n`);
process.exit();

/** A server, with its addresses. */
async function start(args) {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  const side = {};
  for await (const line of createInterface(child.stdout)) {
    const { msg } = JSON.parse(line);
    side.url = /^listening on (http\S+)/.exec(msg)?.[1] ?? side.url;
    side.grpc = /^listening on (\S+) \(gRPC\)/.exec(msg)?.[1] ?? side.grpc;
    if (msg !== 'ready') continue;
    child.stdout.resume();
    return side;
  }
  throw new Error('a server has ended');
}

/** Inputs of the shapes that were asked for. Open dimensions are 1 otherwise. */
async function makeInputs() {
  const about = await (await fetch(`${sides.joined.url}/v2/models/model`)).json();
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

function bodyOf(tensors) {
  const about = tensors.map(({ name, datatype, shape, bytes }) => ({ name, datatype, shape, parameters: { binary_data_size: bytes.length } }));
  const json = Buffer.from(JSON.stringify({ inputs: about, parameters: { binary_data_output: true } }));
  return { length: json.length, body: Buffer.concat([json, ...tensors.map(({ bytes }) => bytes)]) };
}

function restClient({ url }) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { 'inference-header-content-length': request.length, 'content-length': request.body.length, 'content-type': 'application/octet-stream' };
  const call = () =>
    new Promise((resolve, reject) => {
      const sent = http.request(`${url}/v2/models/model/infer`, { method: 'POST', agent, headers }, (response) => {
        response.resume().on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))));
      });
      sent.on('error', reject).end(request.body);
    });
  return { call, close: () => agent.destroy() };
}

function grpcClient({ grpc: address }) {
  const grpc = require('@grpc/grpc-js');
  const definition = require('@grpc/proto-loader').loadSync(inRepository('packages/serve/lib/grpc/inference.proto'), { keepCase: true, longs: Number, defaults: true, oneofs: true });
  const { GRPCInferenceService: Service } = grpc.loadPackageDefinition(definition).inference;
  // A connection of its own.
  const client = new Service(address, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  const message = { model_name: 'model', inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })), raw_input_contents: inputs.map(({ bytes }) => bytes) };
  const call = () =>
    new Promise((resolve, reject) => {
      client.ModelInfer(message, (error) => (error ? reject(error) : resolve()));
    });
  return { call, close: () => client.close() };
}

/** So many clients, each of which calls again when it has its answer. */
async function measure(make, count, time) {
  const all = Array.from({ length: count }, make);
  const times = [];
  const began = performance.now();
  const end = began + time * 1000;
  await Promise.all(
    all.map(async ({ call }) => {
      while (performance.now() < end) {
        const start = performance.now();
        await call();
        times.push(performance.now() - start);
      }
    }),
  );
  const took = (performance.now() - began) / 1000;
  for (const { close } of all) close();
  times.sort((one, other) => one - other);
  return { perSecond: times.length / took, p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

function show() {
  for (const count of clients) {
    console.log(`\n${count} client${count === 1 ? '' : 's'}`);
    for (const [way, found] of Object.entries(measured)) {
      const of = (key) => median(found[count].map((one) => one[key]));
      console.log(`  ${way.padEnd(14)} ${of('perSecond').toFixed(1).padStart(9)} per second   p50 ${of('p50').toFixed(2).padStart(8)} ms   p99 ${of('p99').toFixed(2).padStart(8)} ms`);
    }
  }
}
