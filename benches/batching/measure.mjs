// The child: one model, with or without batching. Its last line on stdout is JSON: what each number of clients got.
//
//   node benches/batching/measure.mjs MODEL-OR-FILE alone|batching '{"clients":[1,8],"threads":2,"maxSize":32,"ms":500,"inputs":{"dimensions":{},"mixed":{},"values":{}}}'
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { quantile } from '../statistics.mjs';
import { fromFile, models } from './models.mjs';

const [name, side, text] = process.argv.slice(2);
const { clients, threads, maxSize, ms, inputs: settings } = JSON.parse(text);
const network = models[name] ?? fromFile(name, settings);
const context = await ml.createContext({ deviceType: 'cpu', numThreads: threads });
const model = await loadOnnx(context, network.make(), side === 'batching' ? { batching: { maxSize } } : {});
const inputs = Array.from({ length: Math.max(...clients) }, (_, i) => network.inputs(i + 1, model));

await agree();
const found = {};
for (const count of clients) {
  await measure(count, ms / 2);
  found[count] = await measure(count, ms);
}
console.log(JSON.stringify(found));
process.exit(0);

/** Each client gets what it gets alone, but for the order of sums. */
async function agree() {
  const alone = [];
  for (const input of inputs) alone.push(first(await model.run(input)));
  const together = await Promise.all(inputs.map((input) => model.run(input)));
  for (const [i, result] of together.entries()) {
    const far = first(result).findIndex((value, at) => !(Math.abs(value - alone[i][at]) <= network.near));
    if (far !== -1 || first(result).length !== alone[i].length) throw new Error(`${name}: client ${i} got ${first(result)[far]}, alone ${alone[i][far]}`);
  }
}

/** The elements of the only output. */
function first(result) {
  return Object.values(result)[0].data;
}

/** So many clients, each of which asks again when it has its result. */
async function measure(count, forMs) {
  const times = [];
  const start = performance.now();
  const client = async (input) => {
    for (let now = performance.now(); now - start < forMs; ) {
      await model.run(input);
      const end = performance.now();
      times.push(end - now);
      now = end;
    }
  };
  await Promise.all(inputs.slice(0, count).map(client));
  return { perSecond: (1000 * times.length) / (performance.now() - start), p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}
