// The parent for --models DIR: the same .onnx files on both engines, in turn, each in a process of its own.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
import { trouble } from '../../scripts/outcome.mjs';
import { run } from '../../scripts/run.mjs';
import { load } from '../machine.mjs';
import { median } from '../statistics.mjs';
import { largestDifference, readArrays, writeArrays } from './arrays.mjs';
import { modelTable } from './table.mjs';

const require = createRequire(import.meta.url);
const { inspectOnnx } = require('../../lib/onnx.js');
const { makeInputs } = require('../../lib/command-line/values.js');

const child = fileURLToPath(new URL('measure.mjs', import.meta.url));
const limitSeconds = 600;

/** @returns {Promise<object[]>} a row per model */
export async function measureModels(options) {
  const files = readdirSync(options.models).filter((file) => file.endsWith('.onnx')).sort();
  if (files.length === 0) throw new Error(`${options.models} has no .onnx files`);
  const rows = [];
  for (const file of files) {
    const name = path.basename(file, '.onnx');
    console.error(`measuring ${name}`);
    try {
      rows.push({ model: name, ...(await measureModel(path.resolve(options.models, file), options)) });
    } catch (error) {
      rows.push({ model: name, error: error.message });
    }
  }
  console.log(`${modelTable(rows, options)}\n`);
  console.log(`ratio: above 1, ${options.left} is faster. control: an engine against itself, to be about 1.00`);
  console.log('to fastest: the ratio to the fastest of the right engine\'s sessions. spread: its slowest session by its fastest');
  console.log(`difference: the largest between the outputs, beside the largest number in them`);
  console.log(`load at the end: ${load().toFixed(2)}`);
  for (const { model, error } of rows) if (error !== undefined) console.error(`${model}: ${error}`);
  return rows;
}

async function measureModel(file, options) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-bench-'));
  try {
    const signatures = await fixedInputs(file, options.dimensions);
    const inputs = path.join(folder, 'inputs');
    const arrays = makeInputs(signatures, [], 1);
    writeArrays(inputs, signatures.map((signature) => ({ ...signature, array: arrays[signature.name] })));
    const results = { left: [], right: [] };
    for (let i = 0; i < options.rounds; i++) {
      // Every second round starts with the other side, so that neither profits from its place.
      const order = i % 2 === 0 ? ['left', 'right', 'left', 'right'] : ['right', 'left', 'right', 'left'];
      for (const side of order) results[side].push(await measure(options[side], file, inputs, path.join(folder, side), options));
    }
    const difference = largestDifference(readArrays(path.join(folder, 'left')), readArrays(path.join(folder, 'right')));
    return { ...compare(results), ...difference };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The inputs with all sizes; what the file leaves open has to be given. */
async function fixedInputs(file, dimensions) {
  const { inputs } = await inspectOnnx(file);
  return inputs.map(({ name, dataType, shape }) => {
    const sizes = (shape ?? []).map((size, axis) => {
      const number = /^\d+$/.test(size) ? Number(size) : (dimensions[`${name}:${axis}`] ?? dimensions[size]);
      if (number === undefined) throw new Error(`input ${name} leaves ${size} open: give --dimension ${size}=SIZE`);
      return number;
    });
    return { name, dataType, shape: sizes };
  });
}

async function measure(engine, file, inputs, outputs, { threads, warmUpMs, sampleMs, dimensions }) {
  const settings = JSON.stringify({ threads, warmUpMs, sampleMs, dimensions });
  const ended = await run(process.execPath, [child, engine, file, inputs, outputs, settings], { limitSeconds, stdout: 'keep', stderr: 'keep' });
  const wrong = trouble(ended, limitSeconds);
  if (wrong) throw new Error(`${engine}: ${wrong}: ${ended.stderr.trim().split('\n').slice(-3).join(' ')}`);
  return JSON.parse(ended.stdout.trimEnd().split('\n').at(-1));
}

function compare({ left, right }) {
  const side = (results) => ({
    medianMs: median(results.map(({ medianMs }) => medianMs)),
    bestMs: Math.min(...results.map(({ bestMs }) => bestMs)),
    loadMs: median(results.map(({ loadMs }) => loadMs)),
    peakMemoryBytes: median(results.map(({ peakMemoryBytes }) => peakMemoryBytes)),
    cores: median(results.map(({ cores }) => cores)),
    // Neighbours of one round, by each other.
    control: median(results.flatMap(({ medianMs }, i) => (i % 2 === 1 ? [medianMs / results[i - 1].medianMs] : []))),
    // Each process is a fresh session, and some engines keep the speed that a session happened to get.
    fastestSessionMs: Math.min(...results.map(({ medianMs }) => medianMs)),
    slowestSessionMs: Math.max(...results.map(({ medianMs }) => medianMs)),
  });
  const ratio = median(left.map(({ medianMs }, i) => right[i].medianMs / medianMs));
  const ratioToFastest = side(right).fastestSessionMs / side(left).medianMs;
  return { left: side(left), right: side(right), ratio, ratioToFastest };
}

export function writeReport(file, rows, machine) {
  writeFileSync(file, `${JSON.stringify({ machine, models: rows }, null, 2)}\n`);
}

