'use strict';

const { contextOptions, count, freeDimensions, givenShapes, inputOptions, oneModel, openContext, pairs, readOptions } = require('./options.js');
const { withProgress } = require('./progress.js');
const { makeConstants, madeUpScalars, makeInputs, shapedInputs, summarize } = require('./values.js');

const usage = `webnn-node run MODEL.onnx [options]

  --input NAME=FILE.npy    the values of an input, and the sizes of its open dimensions; may be given again
  --input NAME=NUMBER      one number for all elements of an input
  --input NAME=random      random values, the default: floats from -1 to 1, integers 0 or 1; random scalars are named
  --shape NAME=1x17        the shape of an input with open dimensions; may be given again
  --dimension NAME=SIZE    the size of an open dimension, for which the model is loaded; may be given again
  --constant NAME=VALUE    a file or number for an input that never changes; may be given again
  --device DEVICE          cpu (default), gpu or npu; \`devices\` lists them
  --threads N              threads on the CPU (default: all that this process may use)
  --fp-math MATH           strict (default), or bf16: the CPU may round the operands of products to bfloat16
  --repeat N               timed runs, after one untimed run (default 1)
  --seed N                 seed of random values (default 1)
  --json                   print JSON
  --help                   this text
`;

async function run(args) {
  const { values, positionals } = readOptions(args, {
    ...contextOptions,
    ...inputOptions,
    repeat: { type: 'string', default: '1' },
  });
  const file = oneModel(positionals);
  const given = pairs('input', values.input);
  const dimensions = freeDimensions(values.dimension);
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const shapes = givenShapes(values.shape);
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const [repeat, seed] = [count('repeat', values.repeat), count('seed', values.seed)];
  const context = await openContext(values);
  const start = performance.now();
  const model = await withProgress('loading', file, (onProgress) => loadOnnx(context, file, { freeDimensions: dimensions, constants, onProgress }));
  const loadMs = performance.now() - start;
  const signatures = shapedInputs(model.inputs, given, shapes);
  const arrays = makeInputs(signatures, given, seed);
  for (const { name, dataType } of madeUpScalars(signatures, given)) {
    console.error(`the scalar input ${name} has a made-up value, ${summarize(arrays[name], dataType).first[0]}: set it with --input ${name}=NUMBER`);
  }
  const inputs = Object.fromEntries(signatures.map(({ name, shape }) => [name, { data: arrays[name], shape }]));
  const first = await timed(() => model.run(inputs));
  const times = [];
  for (let i = 0; i < repeat; i++) times.push((await timed(() => model.run(inputs))).ms);
  times.sort((a, b) => a - b);
  const result = {
    model: file,
    device: values.device,
    accelerated: context.accelerated,
    fpMath: context.fpMath,
    inputs: signatures,
    outputs: Object.entries(first.value).flatMap(([name, result]) => tensorsOf(name, result)).map(([name, { dataType, shape, data }]) => {
      const type = model.outputs.find((output) => output.name === name)?.type ?? dataType;
      return { name, type, dataType, shape, values: summarize(data, dataType) };
    }),
    cuts: model.cuts,
    loadMs,
    firstMs: first.ms,
    runs: repeat,
    bestMs: times[0],
    medianMs: times[times.length >> 1],
    memory: context.memoryUsage(),
    peakMemoryBytes: process.resourceUsage().maxRSS * 1024,
  };
  console.log(values.json ? JSON.stringify(result, null, 2) : text(result));
  model.destroy();
  context.destroy();
}

/** A result; the tensors of a sequence, and none where there is no content. */
function tensorsOf(name, result) {
  if (Array.isArray(result)) return result.map((tensor, position) => [`${name}[${position}]`, tensor]);
  return result === null ? [] : [[name, result]];
}

async function timed(work) {
  const start = performance.now();
  const value = await work();
  return { value, ms: performance.now() - start };
}

function text(result) {
  const lines = ['inputs'];
  const signature = ({ name, dataType, shape }) => `  ${name}  ${dataType}[${shape.join(', ')}]`;
  lines.push(...result.inputs.map(signature), 'outputs');
  for (const output of result.outputs) {
    const { min, max, mean, notFinite, first } = output.values;
    const number = (value) => (value === null ? '-' : String(Number(value.toPrecision(6))));
    lines.push(signature(output));
    lines.push(`    min ${number(min)}, max ${number(max)}, mean ${number(mean)}${notFinite > 0 ? `, ${notFinite} not finite` : ''}`);
    lines.push(`    ${first.map(number).join(', ')}${output.shape.reduce((a, b) => a * b, 1) > first.length ? ', …' : ''}`);
  }
  const ms = (value) => `${value.toFixed(value < 10 ? 3 : 1)} ms`;
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  lines.push(`device ${result.device}${result.accelerated ? ', accelerated' : ''}${result.fpMath === 'strict' ? '' : `, ${result.fpMath}`}`);
  lines.push(`load ${ms(result.loadMs)}, first run ${ms(result.firstMs)}`);
  lines.push(`run ${ms(result.medianMs)} (median of ${result.runs}), ${ms(result.bestMs)} (best)`);
  // On the CPU a run has its inputs and results in script's memory, and no tensors.
  const tensors = result.memory.tensors > 0 ? `, tensors ${mib(result.memory.tensors)}` : '';
  lines.push(`memory: weights and code ${mib(result.memory.graphs)}${tensors}, process at its peak ${mib(result.peakMemoryBytes)}`);
  return lines.join('\n');
}

module.exports = { run, usage };
