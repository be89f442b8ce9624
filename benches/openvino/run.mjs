// This package, strict and by way of bfloat16, beside OpenVINO in f32 and by default, on the .onnx files of a folder: each engine in a
// process of its own, in turn, on the same made-up inputs, with as many threads.
//
//   npm run bench -- openvino --models DIR [--python PYTHON] [--threads 1 --threads 2] [--rounds 3] [--only NAME] [--ms 1000]
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { trouble } from '../../scripts/outcome.mjs';
import { run } from '../../scripts/run.mjs';
import { load, machine } from '../machine.mjs';
import { writeArrays } from '../models/arrays.mjs';
import { median } from '../statistics.mjs';

const require = createRequire(import.meta.url);
const { inspectOnnx } = require('../../lib/onnx.js');
const { makeInputs } = require('../../lib/command-line/values.js');

const LIMIT_SECONDS = 600;
const here = (file) => fileURLToPath(new URL(file, import.meta.url));

const { values } = parseArgs({
  options: {
    models: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    threads: { type: 'string', multiple: true, default: ['1', '2'] },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', multiple: true, default: [] },
    ms: { type: 'string', default: '1000' },
    json: { type: 'string' },
  },
});

const times = { warmUpMs: Number(values.ms) / 3, sampleMs: Number(values.ms) };

/** @type {Record<string, (model: string, inputs: string, outputs: string, threads: number) => [string, string[]]>} */
const ours = (fpMath) => (model, inputs, outputs, threads) => [
  process.execPath,
  [here('../models/measure.mjs'), 'webnn-node', model, inputs, outputs, JSON.stringify({ threads, fpMath, dimensions: {}, ...times })],
];
const openvino = (precision) => (model, inputs, _, threads) => [
  values.python,
  [here('measure.py'), model, inputs, JSON.stringify({ threads, precision, ...times })],
];
const engines = { strict: ours('strict'), bf16: ours('bf16'), 'OpenVINO f32': openvino('f32'), 'OpenVINO default': openvino('default') };
const names = Object.keys(engines);

const about = machine();
console.log(`${about.cpu}, ${about.usableCores} usable cores, Node ${about.node}, load ${load().toFixed(2)}; medians of ${values.rounds} rounds, ms`);
console.log(`| | threads | ${names.join(' | ')} | strict / bf16 | bf16 / default | spread |`);
console.log(`| --- | ---: | ${names.map(() => '---:').join(' | ')} | ---: | ---: | ---: |`);
const report = [];
const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-openvino-'));
try {
  const files = readdirSync(values.models).filter((file) => file.endsWith('.onnx')).sort();
  for (const file of files.filter((file) => values.only.length === 0 || values.only.includes(path.basename(file, '.onnx')))) {
    for (const threads of values.threads.map(Number)) await measure(path.resolve(values.models, file), threads);
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log('spread: the slowest process of an engine by its fastest, of the engine with the largest');
const used = report.at(-1)?.rounds['OpenVINO default'][0];
if (used) console.log(`OpenVINO ${used.version}, which computes in ${used.precision} by default`);
if (values.json) writeFileSync(values.json, `${JSON.stringify({ machine: about, models: report }, null, 2)}\n`);

async function measure(file, threads) {
  const { inputs: signatures } = await inspectOnnx(file);
  const fixed = signatures.map(({ name, dataType, shape }) => ({ name, dataType, shape: shape.map(Number) }));
  const [inputs, outputs] = [path.join(folder, 'inputs'), path.join(folder, 'outputs')];
  const arrays = makeInputs(fixed, [], 1);
  writeArrays(inputs, fixed.map((signature) => ({ ...signature, array: arrays[signature.name] })));
  const rounds = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    // Each round begins with another one, so that none profits from its place.
    for (let i = 0; i < names.length; i++) {
      const name = names[(round + i) % names.length];
      const ended = await run(...engines[name](file, inputs, outputs, threads), { limitSeconds: LIMIT_SECONDS, stdout: 'keep', stderr: 'keep' });
      const wrong = trouble(ended, LIMIT_SECONDS);
      if (wrong) throw new Error(`${name}, ${file}: ${wrong}: ${ended.stderr.trim().split('\n').slice(-3).join(' ')}`);
      rounds[name].push(JSON.parse(ended.stdout.trimEnd().split('\n').at(-1)));
    }
  }
  const medians = names.map((name) => rounds[name].map(({ medianMs }) => medianMs));
  const [strict, bf16, , standard] = medians;
  const ratio = (left, right) => median(left.map((ms, round) => ms / right[round]));
  const spread = Math.max(...medians.map((list) => Math.max(...list) / Math.min(...list)));
  const cells = [...medians.map((list) => milliseconds(median(list))), ...[ratio(strict, bf16), ratio(bf16, standard), spread].map((x) => x.toFixed(2))];
  const model = path.basename(file, '.onnx');
  console.log(`| ${model} | ${threads} | ${cells.join(' | ')} |`);
  report.push({ model, threads, rounds });
}

function milliseconds(ms) {
  return ms.toFixed(ms < 10 ? 2 : 1);
}
