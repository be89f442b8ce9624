// What the first run of a model takes in a new process: without a cache, when the cache is filled, and when it is there, with its files and the
// model in the system's memory, or on the disk only.
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
const KINDS = ['without', 'filled', 'warm', 'cold'];

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
console.log('ms until the model is loaded, until its first run has ended, and in brackets of the processor; medians. cold: files are on the disk only\n');
for (const file of positionals) await measure(path.resolve(file));

async function measure(file) {
  const found = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  await setTimeout(SETTLED);
  for (let round = 0; round < Number(values.rounds); round++) {
    const folder = mkdtempSync(path.join(tmpdir(), 'webnn-starts-'));
    try {
      found.without.push(start(file));
      found.filled.push(start(file, folder));
      found.warm.push(start(file, folder));
      forget([file, ...readdirSync(folder).map((name) => path.join(folder, name))]);
      found.cold.push(start(file, folder));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  const of = (kind, name) => median(found[kind].map((start) => start[name]));
  const text = (kind) => `${kind} ${of(kind, 'loaded').toFixed(0)}, ${of(kind, 'ran').toFixed(0)} (${of(kind, 'processor').toFixed(0)})`;
  const ratio = (kind) => (of(kind, 'ran') / of('without', 'ran')).toFixed(2);
  console.log(`${path.basename(file)}: ${KINDS.map(text).join('; ')}; warm ${ratio('warm')} and cold ${ratio('cold')} of without`);
}

function start(file, folder) {
  const args = [child, file, JSON.stringify(settings), ...(folder === undefined ? [] : [folder])];
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
