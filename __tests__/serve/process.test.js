'use strict';

// npx webnn-node serve: a process that listens, loads, drains and ends; its limits and its token.

const { execFileSync, spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { createServer } = require('@webnn-node/serve');
const { slow, twice } = require('./folder.js');

const program = path.join(__dirname, '..', '..', 'bin', 'webnn-node.js');

let folder;
let models;
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
  models = path.join(folder, 'models');
  fs.mkdirSync(models);
  fs.writeFileSync(path.join(models, 'slow.onnx'), slow());
  fs.writeFileSync(path.join(models, 'double.onnx'), twice('Add'));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** Starts the command. Its log is a list of objects. */
async function start(...args) {
  const child = spawn(process.execPath, [program, 'serve', models, '--port', '0', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const log = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    log.push(...lines.map((line) => JSON.parse(line)));
  });
  const ended = new Promise((resolve) => {
    child.on('exit', (code, signal) => resolve(code ?? signal));
  });
  const find = async (pattern) => {
    for (;;) {
      const found = log.map(({ msg }) => pattern.exec(msg)).find((match) => match !== null);
      if (found !== undefined) return found;
      if (child.exitCode !== null) throw new Error(`it has ended: ${JSON.stringify(log)}`);
      await setTimeout(10);
    }
  };
  const [, origin] = await find(/^listening on (\S+)/);
  return { child, origin, log, ended, ready: () => find(/^ready$/) };
}

const post = (origin, model, shape, agent) => fetch(`${origin}/v2/models/${model}/infer`, { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape, data: [1, 2].slice(0, shape[1]) }] }), ...agent });

test('tells at the start how much of each model is loaded', async () => {
  const reported = [];
  const server = await createServer({ models, onProgress: (progress) => reported.push(progress) });
  await server.close();
  const ends = reported.filter(({ loaded, total }) => loaded === total);
  expect(ends.map(({ model, number, count }) => [model, number, count])).toEqual([['double', 1, 2], ['slow', 2, 2]]);
});

test('answers everything that it has accepted before SIGTERM, refuses what comes later, and ends with 0', async () => {
  const { child, origin, ended, ready } = await start();
  await ready();
  expect((await fetch(`${origin}/v2/health/ready`)).status).toBe(200);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ready503 = () =>
    new Promise((resolve, reject) => {
      http.get(`${origin}/v2/health/ready`, { agent }, (response) => resolve(response.resume().statusCode)).on('error', reject);
    });
  await ready503();
  const running = [1, 2, 3].map(() => post(origin, 'slow', [1, 1]).then(({ status }) => status));
  while (!/^webnn_requests_in_flight 3$/m.test(await (await fetch(`${origin}/metrics`)).text())) await setTimeout(5);
  child.kill('SIGTERM');
  await setTimeout(50);
  expect(await ready503()).toBe(503);
  const late = await post(origin, 'double', [1, 2]);
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
  expect((await fetch(`${origin}/v2/health/live`)).status).toBe(200);
  expect(await Promise.all(running)).toEqual([200, 200, 200]);
  expect(await ended).toBe(0);
  agent.destroy();
});

test('ends with 0 also if somebody does not end a request', async () => {
  const { child, origin, ended, ready } = await start('--grace', '4');
  await ready();
  const request = http.request(`${origin}/v2/models/double/infer`, { method: 'POST', headers: { 'content-length': 100 } }).on('error', () => {});
  request.write('{');
  await setTimeout(200);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('goes on if nobody reads its log any more, and ends with 0', async () => {
  const { child, origin, ended, ready } = await start('--log-level', 'debug');
  await ready();
  child.stdout.destroy();
  expect((await post(origin, 'double', [1, 2])).status).toBe(200);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('ends with 0 also while it loads, and is not ready until then', async () => {
  const { child, origin, ended } = await start();
  const { status } = await fetch(`${origin}/v2/health/ready`).catch(() => ({ status: 'ended' }));
  expect(status).toBe(503);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('ends with 1 if a model cannot be loaded, and says why', async () => {
  const bad = path.join(folder, 'bad');
  fs.mkdirSync(bad);
  fs.writeFileSync(path.join(bad, 'broken.onnx'), 'no model');
  const { status, stdout } = spawnSync(process.execPath, [program, 'serve', bad, '--port', '0'], { encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stdout).toContain('model \\"broken\\"');
});

test('wants its options right, and a folder', () => {
  const run = (...args) => spawnSync(process.execPath, [program, 'serve', ...args], { encoding: 'utf8' });
  for (const args of [[], ['a', 'b'], ['a', '--port', '70000'], ['a', '--device', 'tpu'], ['a', '--tls-cert', 'x'], ['a', '--performance', 'fast'], ['a', '--speculate', 'draft'], ['a', '--prompt-cache', 'x'], ['a', '--unknown']]) expect([args, run(...args).status]).toEqual([args, 2]);
  expect(run('--help').stdout).toContain('--grpc-port');
  expect(run(path.join(folder, 'none')).status).toBe(1);
});

test('says how to install the server where it is not', () => {
  // A copy of the package alone, as npm installs it.
  const alone = path.join(folder, 'alone');
  fs.cpSync(path.join(__dirname, '..', '..', 'lib'), path.join(alone, 'lib'), { recursive: true });
  fs.cpSync(path.join(__dirname, '..', '..', 'bin'), path.join(alone, 'bin'), { recursive: true });
  const { status, stderr } = spawnSync(process.execPath, [path.join(alone, 'bin', 'webnn-node.js'), 'serve', models], { encoding: 'utf8', cwd: alone });
  expect(stderr).toContain('npm install @webnn-node/serve@');
  expect(status).toBe(1);
});

describe('a server with limits', () => {
  let server;
  let origin;
  beforeAll(async () => {
    server = await createServer({ models, maxInFlight: 2, token: 'secret', maxReceiving: 2 ** 20 });
    origin = await server.listen({ port: 0, host: '127.0.0.1' });
  });
  afterAll(() => server.close());
  const headers = { authorization: 'Bearer secret' };

  test('refuses more requests than it may have under way, with 429', async () => {
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => post(origin, 'slow', [1, 1], { headers })));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, 200, 429, 429, 429]);
    expect(answers.find(({ status }) => status === 429).headers.get('retry-after')).toBe('1');
    expect((await post(origin, 'double', [1, 2], { headers })).status).toBe(200);
    expect(server.load.running).toBe(0);
  });

  test('wants its token for all but the probes', async () => {
    for (const authorization of [undefined, 'Bearer wrong', 'secret', 'Basic secret', 'Bearer secret2']) {
      const { status } = await post(origin, 'double', [1, 2], { headers: authorization === undefined ? {} : { authorization } });
      expect([authorization, status]).toEqual([authorization, 401]);
      expect((await fetch(`${origin}/metrics`, { headers: authorization === undefined ? {} : { authorization } })).status).toBe(401);
    }
    expect((await fetch(`${origin}/v2/health/live`)).status).toBe(200);
    expect((await fetch(`${origin}/v2/health/ready`)).status).toBe(200);
    expect((await fetch(`${origin}/v2`, { headers })).status).toBe(200);
  });

  test('answers beside a thousand idle connections', async () => {
    const { port } = server.server.address();
    const idle = await Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        const socket = net.connect(port, '127.0.0.1').on('error', () => {});
        await once(socket, 'connect');
        // Some say nothing, some begin a request.
        if (i % 2) socket.write('POST /v2/models/double/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 100\r\n\r\n{');
        return socket;
      }),
    );
    expect((await post(origin, 'double', [1, 2], { headers })).status).toBe(200);
    for (const socket of idle) socket.destroy();
  });

  test('goes on when clients hang up in the middle of requests, and answers others beside slow senders, which are limited', async () => {
    const begin = () => {
      const request = http.request(`${origin}/v2/models/double/infer`, { method: 'POST', headers: { ...headers, 'content-length': 1_000_000 } });
      request.on('error', () => {});
      request.write('{"inputs":');
      return request;
    };
    const senders = Array.from({ length: 20 }, begin);
    await setTimeout(50);
    expect((await post(origin, 'double', [1, 2], { headers })).status).toBe(200);
    // Those that send much and do not end are cut off; the others are not.
    let cut = 0;
    for (const sender of senders.slice(0, 10)) {
      sender.on('close', () => cut++);
      sender.write(' '.repeat(400_000));
    }
    while (cut < 5) await setTimeout(10);
    expect((await post(origin, 'double', [1, 2], { headers })).status).toBe(200);
    expect(senders.slice(10).some(({ destroyed }) => destroyed)).toBe(false);
    for (const sender of senders) sender.destroy();
    await setTimeout(50);
    expect((await post(origin, 'double', [1, 2], { headers })).status).toBe(200);
    expect(server.load.running).toBe(0);
  });
});

test('counts no request of a client that hangs up before it is answered', async () => {
  const server = await createServer({ models: path.join(models, 'double.onnx'), name: 'double' });
  let answered = 0;
  server.post('/own', async (_request, { raw }) => {
    await once(raw, 'close');
    answered++;
    return {};
  });
  const origin = await server.listen({ port: 0, host: '127.0.0.1' });
  const request = http.request(`${origin}/own`, { method: 'POST' }).on('error', () => {});
  request.end();
  while (server.load.running === 0) await setTimeout(1);
  request.destroy();
  while (answered === 0) await setTimeout(1);
  await server.load.drain();
  await server.close();
});

test('speaks TLS', async () => {
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => path.join(folder, name));
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '1', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { stdio: 'ignore' });
  } catch {
    // No openssl, no certificate to try it with.
    return;
  }
  const { child, origin, ended, ready } = await start('--tls-cert', cert, '--tls-key', key);
  expect(origin).toMatch(/^https:/);
  await ready();
  const status = await new Promise((resolve, reject) => {
    https.get(`${origin}/v2/health/ready`, { ca: fs.readFileSync(cert) }, (response) => resolve(response.resume().statusCode)).on('error', reject);
  });
  expect(status).toBe(200);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});
