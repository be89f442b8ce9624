'use strict';

const { writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { contextOptions, count, freeDimensions, givenShapes, inputOptions, oneModel, openContext, pairs, readOptions, requireWritable } = require('./options.js');
const { profileDecoder } = require('./profile-decoder.js');
const { withProgress } = require('./progress.js');
const { reportHtml } = require('./report/report.js');
const { comparable, medianRun, summaryOf } = require('./report/summary.js');
const { makeConstants, makeInputs, shapedInputs } = require('./values.js');

const usage = `webnn-node profile MODEL.onnx [options]

  --input NAME=FILE.npy    the values of an input; a number or random (default) as in \`run\`; may be given again
  --shape NAME=1x17        the shape of an input with open dimensions; may be given again
  --dimension NAME=SIZE    the size of an open dimension, for which the model is loaded; may be given again
  --constant NAME=VALUE    a file or number for an input that never changes; may be given again
  --device DEVICE          cpu (default), or gpu, if it has timestamp queries
  --threads N              threads on the CPU (default: all that this process may use)
  --fp-math MATH           strict (default), or bf16
  --repeat N               profiled runs, after one unprofiled run (default 10); with --generate profiled calls (default 1)
  --generate N             profile generate() of a decoder with N tokens: the step of the prompt, and the steps of the tokens
  --prompt N               number of random tokens in the prompt (default 64)
  --seed N                 seed of random values (default 1)
  --html FILE              also write a page: a flame chart, the graph with its hot nodes, tables
  --trace                  print the trace for Perfetto instead
  --json                   print JSON
  --help                   this text
`;

async function run(args) {
  const { values, positionals } = readOptions(args, {
    ...contextOptions,
    ...inputOptions,
    repeat: { type: 'string' },
    generate: { type: 'string' },
    prompt: { type: 'string', default: '64' },
    html: { type: 'string' },
    trace: { type: 'boolean', default: false },
  });
  const file = oneModel(positionals);
  const settings = settingsOf(values);
  requireWritable('html', values.html);
  const dimensions = freeDimensions(values.dimension);
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const context = await openContext(values);
  const model = await withProgress('loading', file, (onProgress) => loadOnnx(context, file, { freeDimensions: dimensions, constants, onProgress }));
  const { profile, parts } = settings.tokens === undefined ? await profileRuns(model, settings) : await profileDecoder(model, settings);
  const hasSteps = parts.some(([, runs]) => runs[0].steps.length > 0);
  if (!hasSteps && values.device !== 'cpu') throw new Error('the device does not tell when steps begin and end');
  const peak = await profile.peak();
  const summaries = parts.map(([name, runs]) => [name, { ...summaryOf(runs), peak }]);
  // Of a decoder that of the tokens.
  const [, runs] = parts.at(-1);
  if (values.html !== undefined) writeFileSync(values.html, page(file, placeOf(values, context), summaries.at(-1)[1], runs));
  console.log(values.trace ? JSON.stringify(profile) : values.json ? JSON.stringify(objectOf(summaries), null, 2) : summaries.map(([name, summary]) => text(name, summary)).join('\n\n'));
  if (values.html !== undefined && !values.trace && !values.json) console.log(`\nthe page is in ${values.html}`);
  model.destroy();
  context.destroy();
}

/** What is to be profiled: runs, or the tokens of a decoder. */
function settingsOf({ input, shape, generate, prompt, repeat, seed }) {
  const tokens = generate === undefined ? undefined : count('generate', generate);
  const times = count('repeat', repeat ?? (tokens === undefined ? '10' : '1'));
  return { given: pairs('input', input), shapes: givenShapes(shape), tokens, prompt: count('prompt', prompt), repeat: times, seed: count('seed', seed) };
}

/** Profiles runs, after one other run. */
async function profileRuns(model, { given, shapes, repeat, seed }) {
  const signatures = shapedInputs(model.inputs, given, shapes);
  const arrays = makeInputs(signatures, given, seed);
  const inputs = Object.fromEntries(signatures.map(({ name, shape }) => [name, { data: arrays[name], shape }]));
  await model.run(inputs);
  const profile = model.profile();
  for (let i = 0; i < repeat; i++) await model.run(inputs);
  profile.stop();
  return { profile, parts: [['', profile.runs]] };
}

/** For JSON: of a decoder by `prompt` and `token`. */
const objectOf = (summaries) => (summaries[0][0] === '' ? summaries[0][1] : Object.fromEntries(summaries));

/** More steps are too many for a page. */
const MOST_STEPS = 4000;

/** The profile as a page, which shows the run of the median time. */
function page(file, place, summary, runs) {
  const { ms, steps } = medianRun(runs);
  const kept = summary.steps.slice(0, MOST_STEPS);
  return reportHtml({
    ...summary,
    model: path.basename(file),
    about: `${place}; webnn-node ${require('../version.js')}, Node.js ${process.versions.node}`,
    left: summary.steps.length - kept.length,
    steps: kept,
    run: { ms, steps: steps.slice(0, MOST_STEPS).map(({ began, ms: length }) => ({ began, ms: length })) },
  });
}

/** Where it was computed. */
function placeOf({ device, threads: wanted }, { accelerated }) {
  if (device !== 'cpu') return accelerated ? `a ${device.toUpperCase()}` : `a ${device.toUpperCase()} in software`;
  const { cores } = require('../cores.js');
  const threads = Number(wanted ?? cores());
  const { model = 'unknown CPU' } = os.cpus()[0] ?? {};
  return `${model.trim()}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}

function text(name, { runs, runMs, stepMs, steps, operators, peak }) {
  const share = (ms) => `${((100 * ms) / (stepMs || 1)).toFixed(1)}%`.padStart(6);
  const time = (ms) => ms.toFixed(4).padStart(10);
  const rate = (value, most) => value.toFixed(1).padStart(8) + (value > 0 && most > 0 ? `${((100 * value) / most).toFixed(0)}%` : '').padStart(6);
  const rates = (sum) => `${rate(sum.gflops, comparable(sum, peak).gflops)}${rate(sum.gbs, comparable(sum, peak).gbs)}`;
  return [
    `${name === '' ? '' : `${name}: `}${runs} ${runs === 1 ? 'run' : 'runs'}, ${runMs.toFixed(3)} ms each, of which steps ${stepMs.toFixed(3)} ms; means:`,
    ...(peak === undefined ? [] : [`this machine: ${peak.gflops.toFixed(1)} GFLOP/s of a float32 product, ${peak.gbs.toFixed(1)} GB/s of memory (100%)`]),
    '        ms  share  GFLOP/s          GB/s        implementation              step',
    ...steps.map((step) => `${time(step.ms)} ${share(step.ms)} ${rates(step)}  ${step.implementation.padEnd(26)}  ${step.text}`),
    '',
    '        ms  share  GFLOP/s          GB/s          steps  operator',
    ...operators.map((sum) => `${time(sum.ms)} ${share(sum.ms)} ${rates(sum)} ${`${sum.count}`.padStart(7)}  ${sum.operator}`),
  ].join('\n');
}

module.exports = { run, usage };
