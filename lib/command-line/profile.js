'use strict';

const { writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { contextOptions, count, freeDimensions, givenShapes, oneModel, openContext, pairs, readOptions } = require('./options.js');
const { withProgress } = require('./progress.js');
const { reportHtml } = require('./report/report.js');
const { comparable, medianRun, summaryOf } = require('./report/summary.js');
const { makeConstants, makeInputs, shapedInputs } = require('./values.js');

const usage = `webnn-node profile MODEL.onnx [options]

  --input NAME=FILE.npy    the values of an input; a number or random (default) as in \`run\`; may be given again
  --shape NAME=1x17        the shape of an input with open dimensions; may be given again
  --dimension NAME=SIZE    the size of an open dimension, for which the model is loaded; may be given again
  --constant NAME=VALUE    a file or number for an input that never changes; may be given again
  --threads N              threads (default: all that this process may use)
  --fp-math MATH           strict (default), or bf16
  --repeat N               profiled runs, after one other run (default 10)
  --seed N                 seed of random values (default 1)
  --html FILE              also write a page: a flame chart, the graph with its hot nodes, tables
  --trace                  print the trace for Perfetto instead
  --json                   print JSON
  --help                   this text
`;

async function run(args) {
  // Steps are known on the CPU only.
  const options = { ...contextOptions };
  delete options.device;
  const { values, positionals } = readOptions(args, {
    ...options,
    input: { type: 'string', multiple: true },
    shape: { type: 'string', multiple: true },
    repeat: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    html: { type: 'string' },
    trace: { type: 'boolean', default: false },
  });
  const file = oneModel(positionals);
  const given = pairs('input', values.input);
  const dimensions = freeDimensions(values.dimension);
  const repeat = count('repeat', values.repeat);
  const { cores } = require('../cores.js');
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const context = await openContext({ ...values, device: 'cpu' });
  const model = await withProgress('loading', file, (onProgress) => loadOnnx(context, file, { freeDimensions: dimensions, constants, onProgress }));
  const signatures = shapedInputs(model.inputs, given, givenShapes(values.shape));
  const arrays = makeInputs(signatures, given, count('seed', values.seed));
  const inputs = Object.fromEntries(signatures.map(({ name, shape }) => [name, { data: arrays[name], shape }]));
  await model.run(inputs);
  const profile = model.profile();
  for (let i = 0; i < repeat; i++) await model.run(inputs);
  profile.stop();
  const summary = { ...summaryOf(profile.runs), peak: await profile.peak() };
  if (values.html !== undefined) writeFileSync(values.html, page(file, Number(values.threads ?? cores()), summary, profile.runs));
  console.log(values.trace ? JSON.stringify(profile) : values.json ? JSON.stringify(summary, null, 2) : text(summary));
  model.destroy();
  context.destroy();
}

/** More steps are too many for a page. */
const MOST_STEPS = 4000;

/** The profile as a page, which shows the run of the median time. */
function page(file, threads, summary, runs) {
  const { ms, steps } = medianRun(runs);
  const kept = summary.steps.slice(0, MOST_STEPS);
  return reportHtml({
    ...summary,
    model: path.basename(file),
    about: `${machine(threads)}; webnn-node ${require('../version.js')}, Node.js ${process.versions.node}`,
    left: summary.steps.length - kept.length,
    steps: kept,
    run: { ms, steps: steps.slice(0, MOST_STEPS).map(({ began, ms: length }) => ({ began, ms: length })) },
  });
}

function machine(threads) {
  const { model = 'unknown CPU' } = os.cpus()[0] ?? {};
  return `${model.trim()}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}

function text({ runs, runMs, stepMs, steps, operators, peak }) {
  const share = (ms) => `${((100 * ms) / (stepMs || 1)).toFixed(1)}%`.padStart(6);
  const time = (ms) => ms.toFixed(4).padStart(10);
  const rate = (value, most) => value.toFixed(1).padStart(8) + (value > 0 && most > 0 ? `${((100 * value) / most).toFixed(0)}%` : '').padStart(6);
  const rates = (sum) => `${rate(sum.gflops, comparable(sum, peak).gflops)}${rate(sum.gbs, comparable(sum, peak).gbs)}`;
  return [
    `${runs} runs, ${runMs.toFixed(3)} ms each, of which steps ${stepMs.toFixed(3)} ms; means:`,
    ...(peak === undefined ? [] : [`this machine: ${peak.gflops.toFixed(1)} GFLOP/s of a float32 product, ${peak.gbs.toFixed(1)} GB/s of memory (100%)`]),
    '        ms  share  GFLOP/s          GB/s        implementation              step',
    ...steps.map((step) => `${time(step.ms)} ${share(step.ms)} ${rates(step)}  ${step.implementation.padEnd(26)}  ${step.text}`),
    '',
    '        ms  share  GFLOP/s          GB/s          steps  operator',
    ...operators.map((sum) => `${time(sum.ms)} ${share(sum.ms)} ${rates(sum)} ${`${sum.count}`.padStart(7)}  ${sum.operator}`),
  ].join('\n');
}

module.exports = { run, usage };
