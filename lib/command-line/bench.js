'use strict';

const { readFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const version = require('../version.js');
const { measureRound, planRounds } = require('./bench/measure.js');
const { OtherProcess, find } = require('./bench/onnxruntime.js');
const { SAME, compareRounds, latencies, median } = require('./bench/statistics.js');
const { Usage, contextOptions, count, freeDimensions, givenShapes, inputOptions, oneModel, openContext, pairs, performanceOf, readOptions } = require('./options.js');
const { Bar, withProgress } = require('./progress.js');
const { makeConstants, makeInputs, shapedInputs } = require('./values.js');

const usage = `webnn-node bench MODEL.onnx [options]

  --input NAME=FILE.npy    the values of an input; a number or random (default) as in \`run\`; may be given again
  --shape NAME=1x17        the shape of an input with open dimensions; may be given again
  --dimension NAME=SIZE    the size of an open dimension, for which the model is loaded; may be given again
  --constant NAME=VALUE    a file or number for an input that never changes; may be given again
  --device DEVICE          cpu (default), gpu or npu
  --threads N              threads on the CPU (default: all that this process may use)
  --fp-math MATH           strict (default), or bf16
  --performance HINT       latency, throughput, or the number of concurrent runs (default: depends on the load)
  --in-flight N,N,…        numbers of runs in flight (default 1,8,32)
  --seconds N              approximate time of the measurement (default 10)
  --seed N                 seed of random values (default 1)
  --alone                  do not measure onnxruntime-node (default: measured if it is installed)
  --compare FILE           compare with an earlier result of --json
  --json                   print JSON
  --help                   this text
`;

async function run(args) {
  const { values, positionals } = readOptions(args, {
    ...contextOptions,
    ...inputOptions,
    'in-flight': { type: 'string', default: '1,8,32' },
    seconds: { type: 'string', default: '10' },
    alone: { type: 'boolean', default: false },
    performance: { type: 'string' },
    compare: { type: 'string' },
  });
  const file = oneModel(positionals);
  const levels = values['in-flight'].split(',').map((level) => count('in-flight', level));
  const seconds = secondsOf(values.seconds);
  const before = values.compare === undefined ? undefined : readResult(values.compare);
  const given = pairs('input', values.input);
  const dimensions = freeDimensions(values.dimension);
  const { cores } = require('../cores.js');
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const context = await openContext(values);
  const rssBefore = process.memoryUsage.rss();
  const start = performance.now();
  const model = await withProgress('loading', file, (onProgress) => loadOnnx(context, file, { freeDimensions: dimensions, constants, onProgress }));
  const loadMs = performance.now() - start;
  const signatures = shapedInputs(model.inputs, given, givenShapes(values.shape));
  if (before !== undefined) requireSame(values.compare, before, signatures);
  const arrays = makeInputs(signatures, given, count('seed', values.seed));
  const inputs = Object.fromEntries(signatures.map(({ name, shape }) => [name, { data: arrays[name], shape }]));
  const runModel = () => model.run(inputs);
  const began = performance.now();
  await runModel();
  const firstMs = performance.now() - began;
  const own = { loadMs, firstMs, memoryBytes: process.memoryUsage.rss(), addedMemoryBytes: process.memoryUsage.rss() - rssBefore };
  const [measured, onnxruntime] = await measurePrograms(values, file, { signatures, arrays, runModel, own, levels, seconds });
  const result = {
    model: path.basename(file),
    version,
    node: process.version,
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    device: values.device,
    fpMath: context.fpMath,
    threads: values.threads === undefined ? cores() : Number(values.threads),
    performance: performanceOf(values.performance),
    inputs: signatures.map(({ name, dataType, shape }) => ({ name, dataType, shape })),
    ...own,
    peakMemoryBytes: process.resourceUsage().maxRSS * 1024,
    levels: measured,
    onnxruntime,
    comparison: before && compared(measured, before.levels),
  };
  console.log(values.json ? JSON.stringify(result, null, 2) : text(result, values.compare, before));
  model.destroy();
  context.destroy();
}

/** What runs here, and onnxruntime-node beside it: the levels of both. */
async function measurePrograms(values, file, { signatures, arrays, runModel, own, levels, seconds }) {
  const other = await startOther(values, file, signatures, arrays);
  const programs = [{ round: (inFlight, ms) => measureRound(runModel, inFlight, ms), result: own }];
  if (other.process !== undefined) programs.push({ round: (inFlight, ms) => other.process.round(inFlight, ms), result: other.result });
  try {
    const [measured, others] = await measureAll(programs, levels, seconds / programs.length);
    return [measured, others === undefined ? { missing: other.missing } : { ...other.result, levels: others, comparison: compared(measured, others) }];
  } finally {
    other.process?.end();
  }
}

function secondsOf(text) {
  if (!/^\d{1,5}(\.\d+)?$/.test(text) || Number(text) === 0) throw new Usage(`--seconds ${text}: expected a number above 0`);
  return Number(text);
}

/** What an earlier bench printed. */
function readResult(file) {
  let found;
  try {
    found = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Usage(`--compare ${file}: ${error.message}`);
  }
  const isLevel = (level) => Number.isInteger(level?.inFlight) && Array.isArray(level.rounds) && level.rounds.length > 0 && level.rounds.every((rate) => rate > 0);
  if (Array.isArray(found?.levels) && found.levels.every(isLevel) && Array.isArray(found.inputs)) return found;
  throw new Usage(`--compare ${file}: expected what \`webnn-node bench --json\` prints`);
}

/** Other inputs are other work. */
function requireSame(file, before, signatures) {
  const say = (list) => list.map(({ name, dataType, shape }) => `${name} ${dataType}[${shape}]`).join(', ');
  if (say(before.inputs) !== say(signatures)) throw new Usage(`--compare ${file}: found the inputs ${say(before.inputs)}, allowed ${say(signatures)}`);
}

/** onnxruntime-node with the model loaded, or why it is missing. */
async function startOther(values, file, signatures, arrays) {
  if (values.alone) return { missing: '--alone' };
  if (values.device !== 'cpu') return { missing: 'it is measured on the CPU only' };
  if (values.constant !== undefined) return { missing: 'it has no constants' };
  if (find() === undefined) return { missing: 'not installed' };
  const other = new OtherProcess();
  try {
    const inputs = signatures.map(({ name, type, shape }) => ({ name, type, shape, data: arrays[name] }));
    const threads = values.threads === undefined ? undefined : Number(values.threads);
    return { process: other, result: await other.load({ model: path.resolve(file), inputs, threads }) };
  } catch (error) {
    other.end();
    return { missing: error.message };
  }
}

/** The programs take turns, and so do the levels: what disturbs the machine for a while disturbs all of them. */
async function measureAll(programs, levels, seconds) {
  const plan = planRounds(seconds, levels, Math.max(...programs.map(({ result }) => result.firstMs)));
  const found = programs.map(() => levels.map((inFlight) => ({ inFlight, rounds: [], times: [] })));
  const bar = new Bar('measuring', plan.rounds * levels.length * programs.length);
  try {
    for (let round = 0; round < plan.rounds; round++) {
      for (const [number, inFlight] of levels.entries()) {
        for (const [position, program] of programs.entries()) {
          const { times, perSecond, peakMemoryBytes } = await program.round(inFlight, plan.ms);
          const level = found[position][number];
          level.rounds.push(perSecond);
          for (const time of times) level.times.push(time);
          if (peakMemoryBytes !== undefined) program.result.peakMemoryBytes = peakMemoryBytes;
          bar.step();
        }
      }
    }
  } finally {
    bar.end();
  }
  return found.map((list) =>
    list.map(({ inFlight, rounds, times }) => ({ inFlight, runs: times.length, perSecond: median(rounds), latencyMs: latencies(times), rounds })),
  );
}

/** By the numbers of runs in flight that both have. */
function compared(levels, others) {
  return levels.flatMap(({ inFlight, rounds }) => {
    const other = others.find((level) => level.inFlight === inFlight);
    return other === undefined ? [] : [{ inFlight, ...compareRounds(rounds, other.rounds) }];
  });
}

function text(result, file, before) {
  const number = (value) => value.toPrecision(4).padStart(9);
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const table = (name, { loadMs, firstMs, memoryBytes, peakMemoryBytes, levels }) => [
    `${name}: load ${loadMs.toFixed(1)} ms, first run ${firstMs.toFixed(2)} ms, memory ${mib(memoryBytes)}, at its peak ${mib(peakMemoryBytes)}`,
    '  in flight    runs/s   p50 ms   p90 ms   p99 ms     runs',
    ...levels.map(({ inFlight, perSecond, latencyMs, runs }) => {
      return `  ${`${inFlight}`.padStart(9)} ${[perSecond, latencyMs.p50, latencyMs.p90, latencyMs.p99].map(number).join('')} ${`${runs}`.padStart(8)}`;
    }),
  ];
  const verdicts = (name, list) => [
    `compared with ${name}:`,
    ...list.map(({ inFlight, ratio, low, high, verdict }) => {
      return `  ${`${inFlight}`.padStart(9)}  ${ratio.toFixed(3)} times the runs/s (95 %: ${low.toFixed(3)} to ${high.toFixed(3)}): ${verdict}`;
    }),
  ];
  const { onnxruntime } = result;
  const hint = result.performance === undefined ? '' : `, performance ${result.performance}`;
  const lines = [`${result.model} on ${result.device}, ${result.threads} threads${hint}, ${result.cpu}`, ...table('webnn-node', result)];
  if (onnxruntime.missing === undefined) lines.push(...table('onnxruntime-node', onnxruntime), ...verdicts('onnxruntime-node', onnxruntime.comparison));
  else if (onnxruntime.missing !== '--alone') lines.push(`onnxruntime-node: not measured: ${onnxruntime.missing}`);
  if (before !== undefined) {
    lines.push(...verdicts(file, result.comparison));
    if (before.cpu !== result.cpu) lines.push(`${file} is of another CPU: ${before.cpu}`);
  }
  if (result.comparison ?? onnxruntime.comparison) lines.push(`Differences below ${SAME * 100} % count as noise: processes of the same program differ by that.`);
  return lines.join('\n');
}

module.exports = { run, usage };
