// The child: one engine and one model. Its last line on stdout is JSON; the outputs go to a file.
//
//   node benches/models/measure.mjs ENGINE MODEL INPUTS OUTPUTS '{"threads":1,"warmUpMs":300,"sampleMs":1000,"dimensions":{}}'
import { quantile } from '../statistics.mjs';
import { readArrays, writeArrays } from './arrays.mjs';

const LEAST_SAMPLES = 5;

const engines = {
  async 'webnn-node'(file, inputs, { threads, dimensions }) {
    const { ml } = await import('webnn-node');
    const { loadOnnx } = await import('webnn-node/onnx');
    const context = await ml.createContext({ accelerated: false, numThreads: threads });
    const start = performance.now();
    // Sizes of dimensions that this model does not have are those of another one's.
    const model = await loadOnnx(context, file, { freeDimensions: await present(file, dimensions) });
    const loadMs = performance.now() - start;
    const feeds = Object.fromEntries(inputs.map(({ name, array }) => [name, array]));
    return {
      loadMs,
      run: () => model.run(feeds),
      outputs: (results) => model.outputs.map((output) => ({ ...output, array: results[output.name] })),
    };
  },

  async 'onnxruntime-node'(file, inputs, { threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const start = performance.now();
    const session = await openSession(file, { threads });
    const loadMs = performance.now() - start;
    const feeds = Object.fromEntries(inputs.map(({ name, dataType, shape, array }) => [name, new Tensor(dataType, array, shape)]));
    const type = (name) => (name === 'bool' ? 'uint8' : name);
    return {
      loadMs,
      run: () => session.run(feeds),
      outputs: (results) => Object.entries(results).map(([name, { type: found, dims, data }]) => ({ name, dataType: type(found), shape: dims, array: data })),
    };
  },
};

async function present(file, dimensions) {
  if (Object.keys(dimensions).length === 0) return {};
  const { inspectOnnx } = await import('webnn-node/onnx');
  const { inputs } = await inspectOnnx(file);
  const open = new Set(inputs.flatMap(({ shape }) => shape ?? []));
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
