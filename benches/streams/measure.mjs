// The child: one network and one side. Its last line on stdout is JSON: what a lone run takes, and what each number of clients got.
//
//   node benches/streams/measure.mjs MODEL SIDE '{"clients":[1,16],"threads":2,"ms":500,"runs":4}'
import { quantile } from '../statistics.mjs';
import { models } from './models.mjs';

const [name, side, text] = process.argv.slice(2);
const { clients, threads, ms, runs } = JSON.parse(text);
const { bytes, shape } = models[name]();
const run = await (side === 'onnxruntime' ? onnxruntime() : ours(side === 'default' ? undefined : Number(side) || side));
const inputs = Array.from({ length: Math.max(...clients) }, (_, client) => Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => Math.sin(client + i)));

const alone = await run(inputs[0]);
const found = { sum: alone.reduce((sum, value) => sum + Math.abs(value), 0), clients: {} };
for (const count of clients) {
  await measure(count, ms / 4, 1);
  found.clients[count] = await measure(count, ms, runs);
}
console.log(JSON.stringify(found));
process.exit(0);

async function ours(performance) {
  const { ml } = await import('webnn-node');
  const { loadOnnx } = await import('webnn-node/onnx');
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: threads, performance });
  const model = await loadOnnx(context, bytes);
  return async (x) => (await model.run({ x })).y.data;
}

async function onnxruntime() {
  const { default: ort } = await import('onnxruntime-node');
  const session = await ort.InferenceSession.create(bytes, { intraOpNumThreads: threads, graphOptimizationLevel: 'all' });
  return async (x) => (await session.run({ x: new ort.Tensor('float32', x, shape) })).y.data;
}

/** So many clients, each of which asks again when it has its result: for so long, and until there are so many runs for each client. */
async function measure(count, forMs, atLeast) {
  const times = [];
  const start = performance.now();
  const client = async (input) => {
    for (let now = performance.now(); now - start < forMs || times.length < count * atLeast; ) {
      await run(input);
      const end = performance.now();
      times.push(end - now);
      now = end;
    }
  };
  await Promise.all(inputs.slice(0, count).map(client));
  return { perSecond: (1000 * times.length) / (performance.now() - start), p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}
