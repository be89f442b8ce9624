// What the first run of a model takes in a new process: without a cache, when the cache is filled, and when it is there, with files in the system's
// memory (warm), or on the disk only (cold). onnxruntime-node, beside it, keeps the optimized model.
//
//   npm run bench -- starts FILE … [--rounds 3] [--threads 2] [--dimension NAME=SIZE] [--value INPUT=NUMBER]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const child = fileURLToPath(new URL('starts/measure.mjs', import.meta.url));
/** A file that was changed so lately is read whole. */
const SETTLED = 2500;
const KINDS = ['without', 'filled', 'warm', 'cold without', 'cold'];
const ENGINES = ['webnn-node', 'onnxruntime-node'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    dimension: { type: 'string', multiple: true, default: [] },
    value: { type: 'string', multiple: true, default: [] },
  },
});
if (positionals.length === 0) throw new Error('.onnx files are wanted');
const given = (list) => Object.fromEntries(list.map((text) => text.split('=')).map(([name, number]) => [name, Number(number)]));
const settings = { threads: Number(values.threads), dimensions: given(values.dimension), values: given(values.value) };

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}`);
console.log('ms until the model is loaded, until its first run has ended, and in brackets of the processor; medians; ratios of both\n');
for (const file of positionals) await measure(path.resolve(file));

async function measure(file) {
  const found = Object.fromEntries(ENGINES.map((engine) => [engine, Object.fromEntries(KINDS.map((kind) => [kind, []]))]));
  await setTimeout(SETTLED);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const engine of round % 2 === 0 ? ENGINES : ENGINES.toReversed()) measureRound(engine, file, found[engine]);
  }
  console.log(path.basename(file));
  for (const engine of ENGINES) {
    const of = (kind, name) => median(found[engine][kind].map((start) => start[name]));
    const text = (kind) => `${kind} ${of(kind, 'loaded').toFixed(0)}, ${of(kind, 'ran').toFixed(0)} (${of(kind, 'processor').toFixed(0)})`;
    const ratios = (kind, other) => ['loaded', 'ran'].map((name) => (of(kind, name) / of(other, name)).toFixed(2)).join(', ');
    console.log(`  ${engine.padEnd(17)} ${KINDS.map(text).join('; ')}`);
    console.log(`  ${' '.repeat(17)} warm of without ${ratios('warm', 'without')}; cold of cold without ${ratios('cold', 'cold without')}, of without ${ratios('cold', 'without')}`);
  }
}

function measureRound(engine, file, found) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-starts-'));
  try {
    found.without.push(start(engine, file));
    found.filled.push(start(engine, file, folder));
    found.warm.push(start(engine, file, folder));
    const files = [file, ...readdirSync(folder).map((name) => path.join(folder, name))];
    forget(files);
    found['cold without'].push(start(engine, file));
    forget(files);
    found.cold.push(start(engine, file, folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function start(engine, file, folder) {
  const args = [child, engine, file, JSON.stringify(settings), ...(folder === undefined ? [] : [folder])];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, WEBNN_CACHE: '' } }));
}

/** Has the system drop what it has of files in memory: all of it where that is allowed, or these files. */
function forget(files) {
  execFileSync('sync');
  try {
    writeFileSync('/proc/sys/vm/drop_caches', '3');
  } catch {
    for (const file of files) execFileSync('dd', [`of=${file}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none']);
  }
}
