// A Redis of its own: redis-server on a loopback port, with its files in a folder.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { connect } from './jobs.mjs';

/** @param {string} folder */
export async function startRedis(folder) {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  // Jobs survive the end of Redis, and are never dropped for want of memory.
  const settings = { bind: '127.0.0.1', port, dir: path.resolve(folder), appendonly: 'yes', save: '', 'maxmemory-policy': 'noeviction', loglevel: 'warning' };
  const child = spawn('redis-server', Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]), { stdio: ['ignore', 'ignore', 'inherit'] });
  // It does not outlive this program.
  process.once('exit', () => child.kill());
  const failed = new Promise((_resolve, reject) => {
    child.once('error', (error) => reject(new Error(error.code === 'ENOENT' ? 'redis-server was not found: install it, or pass --redis URL' : error.message)));
    child.once('exit', (code) => reject(new Error(`redis-server has ended with ${code}`)));
  });
  failed.catch(() => {});
  const url = `redis://127.0.0.1:${port}`;
  const connection = connect(url).on('error', () => {});
  // Commands wait until it listens.
  await Promise.race([connection.ping(), failed]).finally(() => connection.disconnect());
  const stop = async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  return { url, stop };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
