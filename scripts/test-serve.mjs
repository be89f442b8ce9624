// npm run test:serve [-- all]: `webnn-node serve` called by clients of PyPI, and its manifests against schemas of PyPI, in environments of their own
// (target/serve); and examples/bulk on Redis. `all` also builds the image of its Dockerfile, and runs it. Where Python, Redis, podman or a registry cannot
// be had, it says so and fails nothing.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { trouble } from './outcome.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { setUp } from './setup.mjs';
import { Tally } from './tally.mjs';

const minutes = 60;
const isAll = process.argv.includes('all');
/** Programs by the files with what they need. */
const programs = { 'requirements.txt': ['triton.py', 'prometheus.py', 'deploy.py'], 'text.txt': ['openai_client.py'], 'kserve.txt': ['kserve_client.py'] };

await setUp();
const tally = new Tally();
const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-serve-'));
const require = createRequire(import.meta.url);
require('../__tests__/serve/folder.js').fill(folder);
require('../__tests__/serve/openai/folders.js').fillText(folder);
for (const [requirements, files] of Object.entries(programs)) {
  const name = requirements.replace('.txt', '');
  const { python, reason } = await environment(name, inRepository('scripts', 'serve', requirements));
  if (python === undefined) {
    for (const file of files) tally.add({ name: file, passed: 0, failed: 0, note: `left out: ${reason}` });
    continue;
  }
  const server = await start();
  for (const file of files) await runProgram(python, file, server);
  const code = await server.stop();
  tally.add({ name: 'SIGTERM', passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, note: code === 0 ? '' : `the server ended with ${code}` });
}
rmSync(folder, { recursive: true });
for (const file of ['bulk.mjs', ...(isAll ? ['image.mjs'] : [])]) await runScript(file);
tally.finish();

/** A program of this repository, which says itself why it is left out. */
async function runScript(file) {
  console.log(`\n== ${file}`);
  const ended = await run(process.execPath, [inRepository('scripts', 'serve', file)], { limitSeconds: 15 * minutes, stdout: 'both', stderr: 'both' });
  const failure = trouble(ended, 15 * minutes);
  addSum(file, ended, failure || (/^left out: .*/m.exec(ended.stdout)?.[0] ?? ''), failure);
}

/** Adds what a program has counted in its last line. */
function addSum(name, { stdout, seconds }, note, failure) {
  const sum = /^(\d+) passed, (\d+) failed$/m.exec(stdout);
  const [passed, failed] = sum === null ? [0, 0] : sum.slice(1).map(Number);
  tally.add({ name, passed, failed: Math.max(failed, failure ? 1 : 0), note, seconds });
}

/** A virtual environment with what a file lists. It is kept until the list changes. */
async function environment(name, requirements) {
  const place = inRepository('target', 'serve', name);
  const python = path.join(place, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const stamp = path.join(place, 'installed');
  const wanted = createHash('sha256').update(readFileSync(requirements)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return { python };
  console.log(`installing ${path.basename(requirements)} from PyPI`);
  const keep = { stdout: 'keep', stderr: 'keep', limitSeconds: 8 * minutes };
  const result = await run('python3', ['-m', 'venv', '--clear', place], keep);
  if (result.code !== 0) return { reason: `python3 -m venv: ${trouble(result, 8 * minutes)}` };
  // Compiling all that is installed takes as long again, and the clients load little of it.
  const options = ['--no-compile', '--quiet', '--disable-pip-version-check'];
  const installed = await run(python, ['-m', 'pip', 'install', ...options, '--requirement', requirements], keep);
  if (installed.code !== 0) return { reason: `pip cannot install the clients: ${installed.stderr.trim().split('\n').at(-1)}` };
  writeFileSync(stamp, wanted);
  return { python };
}

/** Starts the server, and waits until it is ready. */
async function start() {
  const child = spawn(process.execPath, [inRepository('bin', 'webnn-node.js'), 'serve', folder, '--port', '0', '--grpc-port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ports = [];
  for await (const line of createInterface(child.stdout)) {
    const { msg } = JSON.parse(line);
    const found = /^listening on .*:(\d+)/.exec(msg);
    if (found) ports.push(found[1]);
    if (msg !== 'ready') continue;
    child.stdout.resume();
    const ended = once(child, 'exit');
    const stop = async () => {
      child.kill('SIGTERM');
      const [code, signal] = await ended;
      return code ?? signal;
    };
    return { ports, stop };
  }
  throw new Error('the server has ended');
}

async function runProgram(python, file, { ports }) {
  console.log(`\n== ${file}`);
  const ended = await run(python, [inRepository('scripts', 'serve', file), ...ports], { limitSeconds: 5 * minutes, stdout: 'both', stderr: 'both' });
  const note = trouble(ended, 5 * minutes);
  addSum(file, ended, note, note);
}
