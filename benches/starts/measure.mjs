// The child: loads a model and runs it once. Its line on stdout is JSON.
//
//   node benches/starts/measure.mjs ENGINE MODEL '{"threads":2,"dimensions":{},"values":{}}' [CACHE]
import { madeUp } from '../real/inputs.mjs';

const [engine, file, text, cache] = process.argv.slice(2);
const settings = JSON.parse(text);
const { open } = await import(`./${engine}.mjs`);
const { load, finish } = await open(settings.threads);

const used = process.cpuUsage();
const began = performance.now();
const { metadata, run } = await load(file, cache);
const loaded = performance.now() - began;
await run(madeUp(metadata, settings));
const ran = performance.now() - began;
const { user, system } = process.cpuUsage(used);
finish();
console.log(JSON.stringify({ loaded, ran, processor: (user + system) / 1000 }));
process.exit();
