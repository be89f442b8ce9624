// The child: loads a model and runs it once. Its line on stdout is JSON.
//
//   node benches/starts/measure.mjs MODEL '{"threads":2,"dimensions":{},"values":{}}' [CACHE]
import { createRequire } from 'node:module';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { madeUp } from '../real/inputs.mjs';

const native = createRequire(import.meta.url)('../../lib/native.js');
const [file, text, cache] = process.argv.slice(2);
const settings = JSON.parse(text);

const context = await ml.createContext({ deviceType: 'cpu', numThreads: settings.threads });
const used = process.cpuUsage();
const began = performance.now();
const model = await loadOnnx(context, file, { cache });
const loaded = performance.now() - began;
const metadata = model.inputs.map(({ name, dataType, shape }) => ({ name, type: dataType, shape: shape.map((size) => (Number.isNaN(Number(size)) ? size : Number(size))) }));
const inputs = madeUp(metadata, settings);
await model.run(Object.fromEntries(inputs.map(({ name, shape, array }) => [name, { data: array, shape }])));
const ran = performance.now() - began;
const { user, system } = process.cpuUsage(used);
native.finishCache();
console.log(JSON.stringify({ loaded, ran, processor: (user + system) / 1000 }));
process.exit();
