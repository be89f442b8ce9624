'use strict';

// Two replicas behind load balancers that others wrote, as packages/serve/deploy configures them. One replica is killed and one is drained under load: no
// request fails but those that the killed one had.

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const { fill } = require('./folder.js');

const root = path.join(__dirname, '..', '..');
const program = path.join(root, 'bin', 'webnn-node.js');
const deploy = path.join(root, 'packages', 'serve', 'deploy');
/** Callers of each protocol. */
const CALLERS = 4;

let folder;
let models;
const started = new Set();
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-balance-'));
  models = path.join(folder, 'models');
  fs.mkdirSync(models);
  fill(models);
  for (const name of fs.readdirSync(models)) if (!/^(dense|double)\./.test(name)) fs.rmSync(path.join(models, name), { recursive: true });
});
afterEach(async () => {
  for (const child of started) {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }
  started.clear();
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, async () => {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  }));
  const ports = servers.map((server) => server.address().port);
  for (const server of servers) server.close();
  return ports;
}

async function startReplica(port, grpcPort) {
  const child = spawn(process.execPath, [program, 'serve', models, '--port', String(port), '--grpc-port', String(grpcPort), '--threads', '1', '--drain-delay', '3'], { stdio: ['ignore', 'ignore', 'inherit'] });
  started.add(child);
  const exited = once(child, 'exit').then(([code, signal]) => ({ code: code ?? signal, at: performance.now() }));
  const origin = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${origin}/v2/health/ready`)).ok);
  return { child, exited, origin };
}

async function until(holds) {
  while (!(await holds().catch(() => false))) await setTimeout(20);
}

const balancers = {
  haproxy: { file: 'haproxy.cfg', version: '-v', args: (config) => ['-db', '-f', config], isGrpc: true },
  nginx: { file: 'nginx.conf', version: '-v', args: (config) => ['-p', path.dirname(config), '-e', 'stderr', '-c', config, '-g', 'daemon off; user root;'], isGrpc: false },
};

/** The file of packages/serve/deploy with other ports. */
async function startBalancer(name, ports) {
  const { file, args } = balancers[name];
  const text = fs.readFileSync(path.join(deploy, file), 'utf8').replace(/\b80[012][01]\b/g, (port) => ports[port]);
  const config = path.join(folder, `${name}-${ports[8000]}`, file);
  fs.mkdirSync(path.dirname(config));
  fs.writeFileSync(config, text);
  const child = spawn(name, args(config), { stdio: 'ignore' });
  started.add(child);
}

const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [3] }] });

function restCaller(port) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const call = () =>
    new Promise((resolve, reject) => {
      const request = http.request({ host: '127.0.0.1', port, path: '/v2/models/dense/infer', method: 'POST', agent, headers: { 'content-length': body.length } }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part) => (text += part));
        response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`${response.statusCode} ${text}`)))).on('error', reject);
      });
      request.on('error', reject).end(body);
    });
  return { call, close: () => agent.destroy() };
}

const { inference } = grpc.loadPackageDefinition(protoLoader.loadSync(path.join(root, 'packages', 'serve', 'lib', 'grpc', 'inference.proto'), { keepCase: true, longs: String, defaults: true, oneofs: true }));

function grpcCaller(port) {
  const client = new inference.GRPCInferenceService(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1, 'grpc.enable_retries': 0 });
  const request = { model_name: 'dense', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1] }], raw_input_contents: [Buffer.alloc(4)] };
  const call = () =>
    new Promise((resolve, reject) => {
      client.ModelInfer(request, (error) => (error === null ? resolve() : reject(error)));
    });
  return { call, close: () => client.close() };
}

/** Calls until it is told to stop. Failures have the time at which they began. */
function load(callers) {
  let isOver = false;
  let answered = 0;
  const failures = [];
  const work = async ({ call, close }) => {
    while (!isOver) {
      const began = performance.now();
      try {
        await call();
        answered++;
      } catch (error) {
        failures.push({ began, reason: error.message });
      }
    }
    close();
  };
  const all = callers.map(work);
  const some = async (count) => {
    const wanted = answered + count;
    while (answered < wanted) await setTimeout(10);
  };
  const stop = async () => {
    isOver = true;
    await Promise.all(all);
    return { answered, failures };
  };
  return { some, stop };
}

const successes = async ({ origin }) => Number(/^nv_inference_request_success\{model="dense".*\} (\d+)/m.exec(await (await fetch(`${origin}/metrics`)).text())?.[1] ?? 0);

for (const [name, { version, isGrpc }] of Object.entries(balancers)) {
  const isThere = spawnSync(name, [version]).error === undefined;
  const title = `${name}: a killed replica costs what it was computing, a drained one nothing`;
  (isThere ? test : test.skip)(isThere ? title : `${title} (${name} was not found)`, async () => {
    const numbers = await freePorts(6);
    const ports = Object.fromEntries([8000, 8001, 8010, 8011, 8020, 8021].map((port, i) => [port, numbers[i]]));
    let first = await startReplica(ports[8010], ports[8011]);
    const second = await startReplica(ports[8020], ports[8021]);
    await startBalancer(name, ports);
    await until(async () => (await fetch(`http://127.0.0.1:${ports[8000]}/v2/health/ready`)).ok);
    const callers = Array.from({ length: CALLERS }, () => [restCaller(ports[8000]), ...(isGrpc ? [grpcCaller(ports[8001])] : [])]).flat();
    if (isGrpc) await Promise.all(callers.map(({ call }) => until(async () => (await call(), true))));
    const clients = load(callers);
    await clients.some(40);
    expect([await successes(first), await successes(second)].every((count) => count > 0)).toBe(true);

    first.child.kill('SIGKILL');
    const killed = await first.exited;
    await clients.some(40);
    // It comes back, and has its share again.
    first = await startReplica(ports[8010], ports[8011]);
    while ((await successes(first)) < 10) await setTimeout(20);

    second.child.kill('SIGTERM');
    expect(await second.exited).toMatchObject({ code: 0 });
    await clients.some(40);
    const { failures } = await clients.stop();
    // Each caller has one request on the wire at most.
    expect(failures.filter(({ began }) => began > killed.at)).toEqual([]);
    expect(failures.length).toBeLessThanOrEqual(callers.length);
  });
}
