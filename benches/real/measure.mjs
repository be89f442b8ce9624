// The child: one engine and one model, by the interface of onnxruntime-node or by ours. Its last line on stdout is JSON.
//
//   node benches/real/measure.mjs ENGINE MODEL '{"threads":2,"ms":1000,"every":0,"dimensions":{},"values":{}}'
import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { quantile } from '../statistics.mjs';
import { madeUp } from './inputs.mjs';

const [engine, file, text] = process.argv.slice(2);
const settings = JSON.parse(text);
const { threads, ms, every } = settings;

const session = ({ InferenceSession, Tensor }) => async () => {
  const options = { intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all' };
  const opened = await InferenceSession.create(file, options);
  const inputs = madeUp(opened.inputMetadata, settings);
  const feeds = Object.fromEntries(inputs.map(({ name, type, shape, array }) => [name, new Tensor(type, array, shape)]));
  return { inputs, run: () => opened.run(feeds), outputs: (results) => opened.outputNames.map((name) => results[name].data) };
};

const engines = {
  'onnxruntime-node': session((await import('onnxruntime-node')).default),
  session: session(await import('webnn-node/onnxruntime')),
  async model() {
    const { ml } = await import('webnn-node');
    const { loadOnnx } = await import('webnn-node/onnx');
    const model = await loadOnnx(await ml.createContext({ accelerated: false, numThreads: threads }), file);
    const inputs = madeUp(model.inputs.map((input) => ({ ...input, isTensor: true })), settings);
    const feeds = Object.fromEntries(inputs.map(({ name, shape, array }) => [name, { data: array, shape }]));
    return { inputs, run: () => model.run(feeds), outputs: (results) => model.outputs.map(({ name }) => results[name].data) };
  },
};

const { inputs, run, outputs } = await engines[engine]();
const first = outputs(await run()).map((array) => Float64Array.from(array, Number));
await repeat(ms / 3);
const used = process.cpuUsage();
const times = await repeat(ms);
const { user, system } = process.cpuUsage(used);
console.log(
  JSON.stringify({
    inputs: inputs.map(({ name, type, shape, said }) => `${name} ${type} [${shape}] ${said}`),
    medianUs: 1000 * quantile(times, 0.5),
    bestUs: 1000 * quantile(times, 0.02),
    processorUs: (user + system) / times.length,
    // Of each output the first numbers, and all of them for a comparison of results of the same engine.
    outputs: first.map((array) => [...array.slice(0, 64)].map((number) => (Number.isFinite(number) ? number : String(number)))),
    hash: createHash('sha1').update(Buffer.concat(first.map(({ buffer }) => Buffer.from(buffer)))).digest('hex'),
  }),
);
process.exit(0);

/** Runs one after the other, or one at each tick. */
async function repeat(forMs) {
  const samples = [];
  const end = performance.now() + forMs;
  do {
    if (every > 0) await setTimeout(every);
    const start = performance.now();
    await run();
    samples.push(performance.now() - start);
  } while (performance.now() < end || samples.length < 5);
  return samples;
}
