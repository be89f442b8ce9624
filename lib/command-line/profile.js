'use strict';

const { contextOptions, count, freeDimensions, givenShapes, oneModel, openContext, pairs, readOptions } = require('./options.js');
const { withProgress } = require('./progress.js');
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
    trace: { type: 'boolean', default: false },
  });
  const file = oneModel(positionals);
  const given = pairs('input', values.input);
  const dimensions = freeDimensions(values.dimension);
  const repeat = count('repeat', values.repeat);
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const context = await openContext({ ...values, device: 'cpu' });
  const model = await withProgress('loading', file, loadOnnx(context, file, { freeDimensions: dimensions, constants }));
  const signatures = shapedInputs(model.inputs, given, givenShapes(values.shape));
  const arrays = makeInputs(signatures, given, count('seed', values.seed));
  const inputs = Object.fromEntries(signatures.map(({ name, shape }) => [name, { data: arrays[name], shape }]));
  await model.run(inputs);
  const profile = model.profile();
  for (let i = 0; i < repeat; i++) await model.run(inputs);
  profile.stop();
  if (values.trace) console.log(JSON.stringify(profile));
  else {
    const result = summaryOf(profile.runs);
    console.log(values.json ? JSON.stringify(result, null, 2) : text(result));
  }
  model.destroy();
  context.destroy();
}

/**
 * The mean times of steps, in the order of a run, and of operators.
 * @param {import('../onnx.d.ts').OnnxProfiledRun[]} runs of the same steps
 */
function summaryOf(runs) {
  const mean = (of) => runs.reduce((sum, one) => sum + of(one), 0) / runs.length;
  const steps = runs[0].steps.map(({ operator, text: what, implementation, multiplications, bytes }, number) => {
    const ms = mean((one) => one.steps[number]?.ms ?? 0);
    // In one millisecond one unit is 10^3 in a second.
    const perSecond = (units) => (ms > 0 ? units / ms / 1e6 : 0);
    return { operator, text: what, implementation, ms, gflops: perSecond(2 * multiplications), gbs: perSecond(bytes) };
  });
  const stepMs = steps.reduce((sum, { ms }) => sum + ms, 0);
  const operators = new Map();
  for (const { operator, ms } of steps) {
    const sum = operators.get(operator) ?? { operator, count: 0, ms: 0 };
    operators.set(operator, { operator, count: sum.count + 1, ms: sum.ms + ms });
  }
  return { runs: runs.length, runMs: mean(({ ms }) => ms), stepMs, steps, operators: [...operators.values()].sort((a, b) => b.ms - a.ms) };
}

function text({ runs, runMs, stepMs, steps, operators }) {
  const share = (ms) => `${((100 * ms) / (stepMs || 1)).toFixed(1)}%`.padStart(6);
  const time = (ms) => ms.toFixed(4).padStart(10);
  const rate = (value) => value.toFixed(1).padStart(8);
  return [
    `${runs} runs, ${runMs.toFixed(3)} ms each, of which steps ${stepMs.toFixed(3)} ms; means:`,
    '        ms  share  GFLOP/s    GB/s  implementation              step',
    ...steps.map(({ ms, gflops, gbs, implementation, text: what }) => `${time(ms)} ${share(ms)} ${rate(gflops)}${rate(gbs)}  ${implementation.padEnd(26)}  ${what}`),
    '',
    '        ms  share   steps  operator',
    ...operators.map(({ operator, count: number, ms }) => `${time(ms)} ${share(ms)} ${`${number}`.padStart(7)}  ${operator}`),
  ].join('\n');
}

module.exports = { run, usage };
