// The .onnx files that are given, on this package and on onnxruntime-node, each engine in a process of its own, in turn: the time of a
// run, and what it takes of the processors. Of inputs, which are made up, it says how.
//
//   npm run bench -- real FILE-OR-FOLDER … [--threads 2] [--rounds 3] [--ms 1000] [--every MS] [--engine session]
//     [--dimension NAME=SIZE] [--dimension MODEL/INPUT:AXIS=SIZE] [--value MODEL/INPUT=NUMBER] [--json FILE]
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { trouble } from '../scripts/outcome.mjs';
import { run } from '../scripts/run.mjs';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const LIMIT_SECONDS = 300;
/** Numbers further apart than this, relative to the largest, are said. */
const TOLERANCE = 1e-3;
const child = fileURLToPath(new URL('real/measure.mjs', import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    ms: { type: 'string', default: '1000' },
    every: { type: 'string', default: '0' },
    engine: { type: 'string', multiple: true, default: ['session', 'model'] },
    dimension: { type: 'string', multiple: true, default: [] },
    value: { type: 'string', multiple: true, default: [] },
    json: { type: 'string' },
  },
});
const ORT = 'onnxruntime-node';
const names = [...values.engine, ORT];

const files = positionals.flatMap((name) => {
  if (!statSync(name).isDirectory()) return [name];
  return readdirSync(name).filter((file) => file.endsWith('.onnx')).sort().map((file) => path.join(name, file));
});
if (files.length === 0) throw new Error('files or folders with .onnx files are wanted');

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}`);
console.log(`threads: ${values.threads}, rounds: ${values.rounds}, ${Number(values.every) > 0 ? `a run every ${values.every} ms` : 'one run after the other'}`);
console.log('us: median of a run, and in brackets what it takes of the processors. ratio: above 1, this package is faster, or takes less\n');
const rows = [];
for (const file of files) rows.push(await measure(path.resolve(file)));
for (const engine of values.engine) {
  const ratios = rows.flatMap(({ ratios }) => ratios?.[engine] ?? []);
  const mean = (pick) => Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio[pick]), 0) / ratios.length).toFixed(2);
  console.log(`${engine}: geometric mean of ${ratios.length}: time ${mean('time')}, processor ${mean('processor')}`);
}
if (values.json) writeFileSync(values.json, `${JSON.stringify({ machine: here, options: values, models: rows }, null, 2)}\n`);
process.exit(rows.some(({ error }) => error !== undefined) ? 1 : 0);

/** What is given for a model: with its name before a slash, or for all. */
function given(list, model) {
  const found = {};
  for (const text of list) {
    const [, of, name, number] = /^(?:([^/]+)\/)?(.+)=(-?[\d.]+)$/.exec(text) ?? [];
    if (name === undefined) throw new Error(`found ${text}, allowed [MODEL/]NAME=NUMBER`);
    if (of === undefined || of === model) found[name] = Number(number);
  }
  return found;
}

async function measure(file) {
  const model = path.basename(file, '.onnx');
  const settings = {
    threads: Number(values.threads),
    ms: Number(values.ms),
    every: Number(values.every),
    dimensions: given(values.dimension, model),
    values: given(values.value, model),
  };
  const results = Object.fromEntries(names.map((name) => [name, []]));
  try {
    for (let round = 0; round < Number(values.rounds); round++) {
      // Each round begins with another one, so that none profits from its place.
      for (let i = 0; i < names.length; i++) {
        const name = names[(round + i) % names.length];
        const ended = await run(process.execPath, [child, name, file, JSON.stringify(settings)], { limitSeconds: LIMIT_SECONDS, stdout: 'keep', stderr: 'keep' });
        const wrong = trouble(ended, LIMIT_SECONDS);
        if (wrong) throw new Error(`${name}: ${wrong}: ${ended.stderr.trim().split('\n').find((line) => /error/i.test(line)) ?? ''}`);
        results[name].push(JSON.parse(ended.stdout.trimEnd().split('\n').at(-1)));
      }
    }
  } catch (error) {
    console.log(`${model}: ${error.message}`);
    return { model, error: error.message };
  }
  return said(model, results);
}

function said(model, results) {
  const of = (name, pick) => median(results[name].map((result) => result[pick]));
  const ratios = {};
  for (const name of values.engine) {
    const each = (pick) => median(results[name].map((result, round) => results[ORT][round][pick] / result[pick]));
    ratios[name] = { time: each('medianUs'), processor: each('processorUs') };
  }
  const cells = names.map((name) => {
    const ratio = ratios[name] === undefined ? '' : ` ${ratios[name].time.toFixed(2)} (${ratios[name].processor.toFixed(2)})`;
    return `${name} ${of(name, 'medianUs').toFixed(0)} (${of(name, 'processorUs').toFixed(0)})${ratio}`;
  });
  console.log(`${model}: ${cells.join(', ')}`);
  console.log(`  ${results[ORT][0].inputs.join('; ')}`);
  for (const name of values.engine) {
    const apart = difference(results[name][0].outputs, results[ORT][0].outputs);
    if (!(apart <= TOLERANCE)) console.log(`  ${name}: results differ by ${apart.toPrecision(2)} of the largest`);
  }
  return { model, ratios, results };
}

/** Of the largest number of each output. */
function difference(left, right) {
  if (left.length !== right.length) return Infinity;
  return Math.max(0, ...left.map((numbers, output) => {
    const others = right[output].map(Number);
    const largest = Math.max(...others.map(Math.abs), Number.MIN_VALUE);
    return Math.max(0, ...numbers.map(Number).map((number, i) => (Object.is(number, others[i]) ? 0 : Math.abs(number - others[i]) / largest)));
  }));
}
