// The child: opens sessions of one model, runs each once, and tells what that took. It ends when its stdin does, so that several processes
// can be measured while all of them are there. Its last line on stdout is JSON.
//
//   node benches/memory/measure.mjs ENGINE MODEL SESSIONS '{"threads":2,"dimensions":{},"values":{}}'
import { readFileSync } from 'node:fs';
import { madeUp } from '../real/inputs.mjs';

const [engine, file, count, text] = process.argv.slice(2);
const settings = JSON.parse(text);
const found = await import(engine === 'webnn-node' ? 'webnn-node/onnxruntime' : engine);
const { InferenceSession, Tensor } = found.default ?? found;

/** What is resident, and this process's share of it, in bytes. */
function resident() {
  const sizes = readFileSync('/proc/self/smaps_rollup', 'utf8');
  const [rss, pss] = ['Rss', 'Pss'].map((name) => 1024 * Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(sizes)[1]));
  return { rss, pss };
}

const before = resident();
const sessions = [];
const loads = [];
const after = [];
const options = { intraOpNumThreads: settings.threads, interOpNumThreads: 1, graphOptimizationLevel: 'all' };
if (engine === 'webnn-node' && settings.cache !== undefined) options.cache = settings.cache;
for (let i = 0; i < Number(count); i++) {
  const used = process.cpuUsage();
  const start = performance.now();
  const session = await InferenceSession.create(file, options);
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(used);
  const feeds = madeUp(session.inputMetadata, settings).map(({ name, type, shape, array }) => [name, new Tensor(type, array, shape)]);
  await session.run(Object.fromEntries(feeds));
  globalThis.gc();
  sessions.push(session);
  loads.push({ ms, processorMs: (user + system) / 1000 });
  after.push(resident());
}
console.log(JSON.stringify({ before, loads, after }));
// The share is told again when all processes are there.
for await (const line of process.stdin) if (String(line).includes('share')) console.log(JSON.stringify(resident()));
