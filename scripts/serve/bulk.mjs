// node scripts/serve/bulk.mjs [ROWS] [SEED]: examples/bulk on a real Redis, with workers that are killed after random jobs, and with the whole program
// killed and started again. Every row must be there once, in its place, and right. Where redis-server or the registry cannot be had, it says so.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { npmCommand } from '../install.mjs';
import { trouble } from '../outcome.mjs';
import { inRepository } from '../repository.mjs';
import { run } from '../run.mjs';

const { unpackModels } = createRequire(import.meta.url)('../../__tests__/transformers/models.js');

const rows = Number(process.argv[2] ?? 20_000);
const seed = Number(process.argv[3] ?? Date.now() % 1e6);
const minutes = 60;
const limit = 5 * minutes + rows / 100;

const example = inRepository('target', 'serve', 'bulk');
const reason = (await missing()) ?? (await install());
if (reason !== undefined) {
  console.log(`left out: ${reason}\n0 passed, 0 failed`);
  process.exit();
}
const models = unpackModels();
const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-bulk-'));
const model = path.join(models, 'minilm');
const inExample = async (file) => import(pathToFileURL(path.join(example, file)).href);
let passed = 0;
let failed = 0;
await check(`workers are killed at random, seed ${seed}`, whereWorkersAreKilled);
await check('the whole program is killed and started again', whereAllIsKilled);
rmSync(models, { recursive: true });
rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

async function missing() {
  const { error } = await run('redis-server', ['--version'], { limitSeconds: 60, stdout: 'keep', stderr: 'keep' });
  return error === undefined ? undefined : 'redis-server was not found';
}

/** The example with its packages, in a folder of its own, in which webnn-node is the repository's. */
async function install() {
  mkdirSync(example, { recursive: true });
  const source = inRepository('examples', 'bulk');
  for (const file of readdirSync(source).filter((name) => name.endsWith('.mjs'))) cpSync(path.join(source, file), path.join(example, file));
  const description = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8'));
  delete description.dependencies['webnn-node'];
  const text = JSON.stringify(description);
  const file = path.join(example, 'package.json');
  if (existsSync(path.join(example, 'node_modules', 'bullmq')) && existsSync(file) && readFileSync(file, 'utf8') === text) return undefined;
  writeFileSync(file, text);
  const [command, ...args] = npmCommand();
  const ended = await run(command, [...args, 'install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: example, limitSeconds: 5 * minutes, stdout: 'keep', stderr: 'keep' });
  if (ended.code === 0) return undefined;
  rmSync(file);
  return `npm cannot install bullmq: ${trouble(ended, 5 * minutes)}`;
}

async function check(name, work) {
  try {
    console.log(`${name}: ${await work()}`);
    passed++;
  } catch (error) {
    console.log(`FAIL ${name}: ${error.stack}`);
    failed++;
  }
}

function expect(is, what) {
  if (!is) throw new Error(what);
}

function argsOf(place, ...more) {
  return ['index.mjs', '--model', model, '--rows', String(rows), '--folder', place, '--job', '128', '--lock', '2', '--workers', '2', '--threads', '1', ...more];
}

async function whereWorkersAreKilled() {
  const place = path.join(folder, 'workers');
  const ended = await run(process.execPath, argsOf(place, '--kill', '20', '--seed', String(seed)), { cwd: example, limitSeconds: limit, stdout: 'keep', stderr: 'keep' });
  expect(ended.code === 0, `${trouble(ended, limit)}\n${ended.stdout}${ended.stderr.slice(-2000)}`);
  const [, kills, takenOver] = /^(\d+) workers were killed, (\d+) jobs taken over$/m.exec(ended.stdout) ?? [];
  expect(Number(kills) > 0, `no worker was killed:\n${ended.stdout}`);
  requireCompleted(ended.stdout);
  await requireRows(place);
  return `${kills} killed, ${takenOver} jobs taken over`;
}

/** Its workers end with it. What Redis has of the jobs is enough to go on. */
async function whereAllIsKilled() {
  const place = path.join(folder, 'all');
  const { startRedis } = await inExample('redis.mjs');
  const { connect, openQueue } = await inExample('jobs.mjs');
  const redis = await startRedis(path.join(folder, 'redis'));
  const args = argsOf(place, '--redis', redis.url, '--queue', 'all');
  const connection = connect(redis.url);
  const queue = openQueue('all', connection);
  const first = spawn(process.execPath, args, { cwd: example, stdio: 'ignore' });
  const exit = once(first, 'exit');
  while ((await queue.getCompletedCount()) < 10) await wait(5);
  first.kill('SIGKILL');
  await exit;
  const before = await queue.getCompletedCount();
  const ended = await run(process.execPath, args, { cwd: example, limitSeconds: limit, stdout: 'keep', stderr: 'keep' });
  await queue.close();
  connection.disconnect();
  await redis.stop();
  expect(ended.code === 0, `${trouble(ended, limit)}\n${ended.stdout}${ended.stderr.slice(-2000)}`);
  requireCompleted(ended.stdout);
  await requireRows(place);
  return `${before} jobs were completed before`;
}

function requireCompleted(text) {
  const [, given, missed, completed, jobs, lost] = /: (\d+) rows of \d+, (\d+) missing; (\d+) of (\d+) jobs completed, (\d+) failed$/m.exec(text) ?? [];
  expect(Number(given) === rows && missed === '0' && completed === jobs && Number(jobs) === Math.ceil(rows / 128) && lost === '0', `rows are missing, or jobs doubled:\n${text}`);
}

/** Compares the file with vectors that are computed here, in other batches. */
async function requireRows(place) {
  const { madeUp } = await inExample('rows.mjs');
  const { loadEmbedder } = await inExample('embedder.mjs');
  const embedder = await loadEmbedder(model);
  const bytes = readFileSync(path.join(place, 'embeddings.npy'));
  const [, count, width] = /'descr': '<f4', 'fortran_order': False, 'shape': \((\d+), (\d+)\)/.exec(bytes.toString('latin1', 0, 128)) ?? [];
  expect(Number(count) === rows && bytes.length === 128 + rows * width * 4, `the file has ${count} rows and ${bytes.length} bytes`);
  const found = new Float32Array(bytes.buffer.slice(bytes.byteOffset + 128, bytes.byteOffset + bytes.length));
  const texts = [...madeUp(rows)];
  for (let first = 0; first < rows; first += 1000) {
    const vectors = await embedder.embed(texts.slice(first, first + 1000));
    vectors.forEach((vector, i) => {
      const at = (first + i) * width;
      const cosine = vector.reduce((sum, value, j) => sum + value * found[at + j], 0);
      expect(cosine > 0.99999 && cosine < 1.00001, `row ${first + i} is another one: the cosine is ${cosine}`);
    });
  }
  embedder.close();
}
