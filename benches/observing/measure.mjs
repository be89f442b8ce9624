// The child: how long a run of a small network takes. Its last line on stdout is JSON.
//
//   node [--require without.cjs] benches/observing/measure.mjs without|off|channels|trace MILLISECONDS
import { tracingChannel } from 'node:diagnostics_channel';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { models } from '../batching/models.mjs';
import { median } from '../statistics.mjs';

/** Runs of a sample. */
const RUNS = 50;

const [side, ms] = process.argv.slice(2);
if (side === 'channels') {
  const nothing = () => {};
  tracingChannel('webnn-node:run').subscribe({ start: nothing, end: nothing, asyncStart: nothing, asyncEnd: nothing, error: nothing });
}
const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1 });
const model = await loadOnnx(context, models.table.make());
const inputs = models.table.inputs(1);

await samples(ms / 2);
console.log(JSON.stringify({ us: median(await samples(ms)) }));
process.exit(0);

/** Microseconds for a run, of one after the other. */
async function samples(forMs) {
  const found = [];
  const end = performance.now() + Number(forMs);
  while (performance.now() < end) {
    const start = performance.now();
    for (let i = 0; i < RUNS; i++) await model.run(inputs);
    found.push((1000 * (performance.now() - start)) / RUNS);
  }
  return found;
}
