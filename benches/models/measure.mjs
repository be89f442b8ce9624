// The child: one engine and one model. Its last line on stdout is JSON; the outputs go to a file.
//
//   node benches/models/measure.mjs ENGINE MODEL INPUTS OUTPUTS '{"threads":1,"warmUpMs":300,"sampleMs":1000,"dimensions":{}}'
import { quantile } from '../statistics.mjs';
import { readArrays, writeArrays } from './arrays.mjs';

const LEAST_SAMPLES = 5;

const engines = {
  async 'webnn-node'(file, inputs, { threads, fpMath = 'strict', dimensions }) {
    const { ml } = await import('webnn-node');
    const { loadOnnx } = await import('webnn-node/onnx');
    const context = await ml.createContext({ accelerated: false, numThreads: threads, fpMath });
    const start = performance.now();
    // Sizes of dimensions that this model does not have are those of another one's.
    const model = await loadOnnx(context, file, { freeDimensions: await present(file, dimensions) });
    const loadMs = performance.now() - start;
    const feeds = Object.fromEntries(inputs.map(({ name, array }) => [name, array]));
    return {
      loadMs,
      run: () => model.run(feeds),
      outputs: (results) => model.outputs.map((output) => ({ ...output, array: results[output.name].data })),
    };
  },

  async 'onnxruntime-node'(file, inputs, { threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const start = performance.now();
    const session = await openSession(file, { threads });
    const loadMs = performance.now() - start;
    // What WebNN has no type for is another type here.
    const wanted = new Map(session.inputMetadata.map(({ name, type }) => [name, type]));
    const tensor = ({ name, dataType, shape, array }) => {
      if (wanted.get(name) === 'float64') return new Tensor('float64', Float64Array.from(array), shape);
      return new Tensor(wanted.get(name) === 'bool' ? 'bool' : dataType, array, shape);
    };
    const feeds = Object.fromEntries(inputs.map((input) => [input.name, tensor(input)]));
    const type = (name) => ({ bool: 'uint8', float64: 'float32' })[name] ?? name;
    const own = (array) => (array instanceof Float64Array ? Float32Array.from(array) : array);
    return {
      loadMs,
      run: () => session.run(feeds),
      outputs: (results) => Object.entries(results).map(([name, { type: found, dims, data }]) => ({ name, dataType: type(found), shape: dims, array: own(data) })),
    };
  },
};

async function present(file, dimensions) {
  if (Object.keys(dimensions).length === 0) return {};
  const { inspectOnnx } = await import('webnn-node/onnx');
  const { inputs } = await inspectOnnx(file);
  const open = new Set(inputs.flatMap(({ name, shape }) => (shape ?? []).flatMap((size, axis) => (/^\d+$/.test(size) ? [] : [size, `${name}:${axis}`]))));
  return Object.fromEntries(Object.entries(dimensions).filter(([name]) => open.has(name)));
}

const [engine, file, inputs, outputs, text] = process.argv.slice(2);
const settings = JSON.parse(text);
const { loadMs, run, outputs: describe } = await engines[engine](file, readArrays(inputs), settings);
const firstStart = performance.now();
const first = await run();
const firstMs = performance.now() - firstStart;
writeArrays(outputs, describe(first));
await repeat(settings.warmUpMs);
const cpu = process.cpuUsage();
const start = performance.now();
const samples = await repeat(settings.sampleMs);
const wallMs = performance.now() - start;
const { user, system } = process.cpuUsage(cpu);
console.log(
  JSON.stringify({
    loadMs,
    firstMs,
    medianMs: quantile(samples, 0.5),
    bestMs: quantile(samples, 0),
    samples: samples.length,
    cores: (user + system) / 1000 / wallMs,
    peakMemoryBytes: process.resourceUsage().maxRSS * 1024,
  }),
);
process.exit(0);

async function repeat(forMs) {
  const samples = [];
  const end = performance.now() + forMs;
  do {
    const start = performance.now();
    await run();
    samples.push(performance.now() - start);
  } while (performance.now() < end || samples.length < LEAST_SAMPLES);
  return samples;
}
