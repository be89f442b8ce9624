// npm run bench -- gpu: how fast a GPU is. Products of matrices in float32 and float16, and models, whose
// outputs are compared with those of the CPU.
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ml, MLGraphBuilder } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { largestDifference } from '../models/arrays.mjs';
import { quantile } from '../statistics.mjs';

const { makeInputs } = createRequire(import.meta.url)('../../lib/command-line/values.js');

const { values } = parseArgs({
  options: {
    sizes: { type: 'string', default: '2048,4096' },
    types: { type: 'string', default: 'float32,float16' },
    peak: { type: 'string', multiple: true, default: [] },
    models: { type: 'string' },
    only: { type: 'string', default: '' },
    dimension: { type: 'string', multiple: true, default: [] },
    seconds: { type: 'string', default: '2' },
  },
});
const peaks = Object.fromEntries(values.peak.map((pair) => pair.split('=')));
const freeDimensions = Object.fromEntries(values.dimension.map((pair) => pair.split('=')).map(([name, size]) => [name, Number(size)]));
const forMs = Number(values.seconds) * 1000;

// Says on stderr which adapter it is.
process.env.WEBNN_LOG ||= '1';
const gpu = await ml.createContext({ deviceType: 'gpu', powerPreference: 'high-performance' });

for (const size of values.sizes.split(',').filter(Boolean).map(Number)) {
  for (const dataType of values.types.split(',')) await product(size, dataType);
}
if (values.models !== undefined) {
  const files = readdirSync(values.models).filter((file) => file.endsWith('.onnx') && file.includes(values.only));
  for (const file of files.sort()) await model(path.resolve(values.models, file));
}
process.exit(process.exitCode ?? 0);

/** The time of one product in a chain of them, by which nothing else is waited for. */
async function product(size, dataType) {
  const descriptor = { dataType, shape: [size, size] };
  const builder = new MLGraphBuilder(gpu);
  const [a, b] = ['a', 'b'].map((name) => builder.input(name, descriptor));
  const graph = await builder.build({ c: builder.matmul(a, b) });
  const [left, right, output] = await Promise.all(
    [0, 0, 1].map((readable) => gpu.createTensor({ ...descriptor, writable: true, readable: readable === 1 })),
  );
  // Small whole numbers, so that the result is exact in float16 too as long as it is small.
  const number = (i) => ((Math.imul(i, 2654435761) >>> 16) % 3) - 1;
  gpu.writeTensor(left, matrix(dataType, size, (i) => number(i)));
  gpu.writeTensor(right, matrix(dataType, size, (i) => number(i + 7)));
  const run = async (times) => {
    const start = performance.now();
    for (let i = 0; i < times; i++) gpu.dispatch(graph, { a: left, b: right }, { c: output });
    const found = await gpu.readTensor(output);
    return { total: performance.now() - start, found };
  };
  const { found } = await run(1);
  const wrong = check(found, dataType, size, number);
  // Reading the result takes longer than many products: what twice as many take more is theirs alone.
  const once = ((await run(9)).total - (await run(1)).total) / 8;
  const times = Math.max(8, Math.min(2000, Math.round(forMs / 9 / Math.max(once, 0.01))));
  const samples = [];
  for (let i = 0; i < 3; i++) samples.push(-(await run(times)).total / times + (await run(2 * times)).total / times);
  const ms = quantile(samples, 0.5);
  const teraflops = (2 * size ** 3) / ms / 1e9;
  const peak = peaks[dataType] ? `, ${((100 * teraflops) / peaks[dataType]).toFixed(1)}% of the peak` : '';
  console.log(`product ${size} ${dataType}: ${ms.toFixed(3)} ms, ${teraflops.toFixed(3)} TFLOP/s${peak}${wrong}`);
  for (const tensor of [left, right, output]) tensor.destroy();
  graph.destroy();
}

/** A few elements beside what they should be. */
function check(buffer, dataType, size, number) {
  const found = dataType === 'float16' ? new Uint16Array(buffer) : new Float32Array(buffer);
  for (let n = 0; n < 64; n++) {
    const [row, column] = [(n * 7919) % size, (n * 104729) % size];
    let expected = 0;
    for (let k = 0; k < size; k++) expected += number(row * size + k) * number(k * size + column + 7);
    const value = dataType === 'float16' ? fromHalf(found[row * size + column]) : found[row * size + column];
    if (value !== expected) {
      process.exitCode = 1;
      return `; WRONG: element ${row}, ${column} is ${value}, not ${expected}`;
    }
  }
  return '';
}

function matrix(dataType, size, number) {
  const half = { '-1': 0xbc00, 0: 0, 1: 0x3c00 };
  return dataType === 'float16'
    ? Uint16Array.from({ length: size * size }, (_, i) => half[number(i)])
    : Float32Array.from({ length: size * size }, (_, i) => number(i));
}

function fromHalf(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >>> 10) & 31, bits & 1023];
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

async function model(file) {
  const name = path.basename(file, '.onnx');
  try {
    const start = performance.now();
    const onGpu = await loadOnnx(gpu, file, { freeDimensions });
    const loadMs = performance.now() - start;
    const inputs = makeInputs(onGpu.inputs, [], 1);
    const found = await onGpu.run(inputs);
    const samples = [];
    const end = performance.now() + forMs;
    do {
      const before = performance.now();
      await onGpu.run(inputs);
      samples.push(performance.now() - before);
    } while (performance.now() < end);
    onGpu.destroy();
    const cpu = await ml.createContext({ accelerated: false });
    const onCpu = await loadOnnx(cpu, file, { freeDimensions });
    const expected = await onCpu.run(inputs);
    const list = (model, results) => model.outputs.map((output) => ({ ...output, array: results[output.name].data }));
    const { difference, largest } = largestDifference(list(onCpu, found), list(onCpu, expected));
    cpu.destroy();
    const times = `median ${quantile(samples, 0.5).toFixed(2)} ms, best ${quantile(samples, 0).toFixed(2)} ms, loaded in ${loadMs.toFixed(0)} ms`;
    console.log(`${name}: ${times}; largest difference from the CPU ${difference.toExponential(2)} beside ${largest.toPrecision(4)}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`${name}: ${error.message}`);
  }
}
