// Starts the servers that are measured. They end with this process.
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const inRepository = (file) => fileURLToPath(new URL(`../../${file}`, import.meta.url));

const started = [];
const folders = [];
process.once('exit', () => {
  for (const child of started) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A program of Node.js that logs JSON: its addresses, and `ready`. */
export async function startNode(args) {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  const side = { pid: child.pid };
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

export const startServe = (model, threads, ...more) => startNode([inRepository('bin/webnn-node.js'), 'serve', model, '--name', 'model', '--port', '0', '--grpc-port', '0', '--threads', threads, ...more]);

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

/**
 * MLServer with a runtime around onnxruntime, in one process.
 * @param {string} command PyPI's mlserver, installed with onnxruntime
 * @param {string} model
 * @param {string} threads
 * @param {number} together requests that it joins; 0 joins none
 */
export async function startMlserver(command, model, threads, together) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-mlserver-'));
  folders.push(folder);
  const place = path.join(folder, 'model');
  mkdirSync(place);
  cpSync(inRepository('benches/serving/mlserver_runtime.py'), path.join(place, 'mlserver_runtime.py'));
  const [http, grpc, metrics] = [await freePort(), await freePort(), await freePort()];
  const write = (file, value) => writeFileSync(file, JSON.stringify(value));
  write(path.join(folder, 'settings.json'), { host: '127.0.0.1', http_port: http, grpc_port: grpc, metrics_port: metrics, parallel_workers: 0, debug: false, load_models_at_startup: true });
  write(path.join(place, 'model-settings.json'), { name: 'model', implementation: 'mlserver_runtime.OnnxRuntime', parameters: { uri: path.resolve(model), extra: { threads: Number(threads) } }, ...(together > 0 && { max_batch_size: together, max_batch_time: 0.001 }) });
  const child = spawn(command, ['start', folder], { stdio: 'ignore', env: { ...process.env, PYTHONPATH: place } });
  started.push(child);
  const url = `http://127.0.0.1:${http}`;
  while (!(await fetch(`${url}/v2/models/model/ready`).catch(() => ({ ok: false }))).ok) {
    if (child.exitCode !== null) throw new Error(`MLServer has ended with ${child.exitCode}`);
    await wait(100);
  }
  return { url, grpc: `127.0.0.1:${grpc}`, pid: child.pid };
}
