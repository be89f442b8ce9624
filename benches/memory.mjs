// What sessions of one model take together, in one process and in several, and what each load takes: this package beside onnxruntime-node,
// each engine in processes of its own, in turn.
//
//   npm run bench -- memory FILE … [--sessions 8] [--processes 8] [--rounds 3] [--threads 2] [--dimension NAME=SIZE] [--value INPUT=NUMBER] [--cache]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const ENGINES = ['webnn-node', 'onnxruntime-node'];
const MB = 1e6;
const child = fileURLToPath(new URL('memory/measure.mjs', import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sessions: { type: 'string', default: '8' },
    processes: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    dimension: { type: 'string', multiple: true, default: [] },
    value: { type: 'string', multiple: true, default: [] },
    cache: { type: 'boolean', default: false },
  },
});
if (positionals.length === 0) throw new Error('.onnx files are wanted');
if (process.platform !== 'linux') throw new Error('only Linux tells what a process has resident: /proc/self/smaps_rollup');
const given = (list) => Object.fromEntries(list.map((text) => text.split('=')).map(([name, number]) => [name, Number(number)]));
const settings = { threads: Number(values.threads), dimensions: given(values.dimension), values: given(values.value) };
if (values.cache) {
  settings.cache = mkdtempSync(path.join(tmpdir(), 'webnn-cache-'));
  process.once('exit', () => rmSync(settings.cache, { recursive: true }));
}

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}`);
console.log('MB: what the process has grown by. ms: wall and, in brackets, processor time of a load. Medians.\n');
for (const file of positionals) await measure(path.resolve(file));

async function measure(file) {
  const found = Object.fromEntries(ENGINES.map((engine) => [engine, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const engine of round % 2 === 0 ? ENGINES : ENGINES.toReversed()) {
      const { before, loads, after } = await inProcess(engine, file);
      const shares = await inProcesses(engine, file);
      const grown = after.map(({ rss }) => rss - before.rss);
      found[engine].push({ first: loads[0], second: loads[1], one: grown[0], all: grown.at(-1), processes: shares, alone: after[0].pss });
    }
  }
  console.log(path.basename(file));
  for (const engine of ENGINES) {
    const of = (pick) => median(found[engine].map(pick));
    const [one, all, processes, alone] = ['one', 'all', 'processes', 'alone'].map((name) => of((round) => round[name]));
    const ms = (name) => `${of((round) => round[name].ms).toFixed(0)} (${of((round) => round[name].processorMs).toFixed(0)})`;
    console.log(
      `  ${engine.padEnd(17)} load ${ms('first')}, again ${ms('second')} ms; one session ${mb(one)}, ${values.sessions} sessions ${mb(all)} MB (${(all / one).toFixed(2)}); ` +
        `one process ${mb(alone)}, ${values.processes} processes ${mb(processes)} MB (${(processes / alone).toFixed(2)})`,
    );
  }
}

function mb(bytes) {
  return (bytes / MB).toFixed(0);
}

function start(engine, file, sessions) {
  const process_ = spawn(process.execPath, ['--expose-gc', child, engine, file, String(sessions), JSON.stringify(settings)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: process_.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${engine}: the process ended before it sent anything`);
    return JSON.parse(value);
  };
  const end = async () => {
    process_.stdin.end();
    await once(process_, 'exit');
  };
  return { next, end, ask: () => process_.stdin.write('share\n') };
}

async function inProcess(engine, file) {
  const one = start(engine, file, values.sessions);
  const message = await one.next();
  await one.end();
  return message;
}

/** What so many processes with a session each have together. */
async function inProcesses(engine, file) {
  const all = Array.from({ length: Number(values.processes) }, () => start(engine, file, 1));
  await Promise.all(all.map(({ next }) => next()));
  all.forEach(({ ask }) => ask());
  const shares = await Promise.all(all.map(({ next }) => next()));
  await Promise.all(all.map(({ end }) => end()));
  return shares.reduce((sum, { pss }) => sum + pss, 0);
}
