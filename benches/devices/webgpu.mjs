// How long the turns of script's thread are while graphs are built for a GPUDevice and run on it: on Dawn (npm's `webgpu`), and on the
// driver that VK_DRIVER_FILES names, or SwiftShader where `.ci/run` puts it.
//
//   npm run bench -- webgpu [--only bert,operators] [--calls]
//
// A turn is what a timer of a millisecond is late by; also what the thread computed until then, which other processes do not make longer,
// and that without what V8 collected garbage for (Node.js 24, whose process.threadCpuUsage() tells; what Linux tells of a thread is counted in
// steps of some milliseconds). `--calls` adds what the longest calls took.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { PerformanceObserver, performance } from 'node:perf_hooks';
import { setTimeout as later } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const { ml, MLGraphBuilder } = require('../../lib/index.js');
const { requiredFeatures, requiredLimits } = require('../../lib/webgpu.js');

const { values: options } = parseArgs({ options: { only: { type: 'string' }, calls: { type: 'boolean', default: false } } });
const driver = fileURLToPath(new URL('../../target/swiftshader/vk_swiftshader_icd.json', import.meta.url));
if (process.env.VK_DRIVER_FILES === undefined && existsSync(driver)) process.env.VK_DRIVER_FILES = driver;

const float32 = (...shape) => ({ dataType: 'float32', shape });

/** The encoder of a MiniLM: 6 layers of 384 numbers, 64 tokens. */
function bert(b) {
  const [tokens, width, heads, inner] = [64, 384, 12, 1536];
  const weight = (...shape) => b.constant(float32(...shape), new Float32Array(shape.reduce((x, y) => x * y, 1)).fill(0.01));
  const linear = (x, from, to) => b.add(b.matmul(x, weight(from, to)), weight(to));
  const split = (x) => b.transpose(b.reshape(x, [1, tokens, heads, width / heads]), { permutation: [0, 2, 1, 3] });
  const normalized = (x) => b.layerNormalization(x, { axes: [2], scale: weight(width), bias: weight(width) });
  let x = b.input('x', float32(1, tokens, width));
  for (let layer = 0; layer < 6; layer++) {
    const [q, k, v] = [1, 2, 3].map(() => split(linear(x, width, width)));
    const scores = b.softmax(b.mul(b.matmul(q, b.transpose(k, { permutation: [0, 1, 3, 2] })), b.constant('float32', 0.2)), 3);
    const joined = b.reshape(b.transpose(b.matmul(scores, v), { permutation: [0, 2, 1, 3] }), [1, tokens, width]);
    x = normalized(b.add(x, linear(joined, width, width)));
    x = normalized(b.add(x, linear(b.gelu(linear(x, width, inner)), inner, width)));
  }
  return { y: x };
}

/** 200 operators of sizes of their own, so that each has a shader of its own. */
function operators(b) {
  const kinds = [(x) => b.softmax(x, 1), (x) => b.transpose(x), (x) => b.reduceSum(x, { axes: [1] }), (x) => b.cumulativeSum(x, 1)];
  const input = (i) => b.input(`x${i}`, float32(1 + (i % 17), 3 + i));
  return Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`y${i}`, kinds[i % kinds.length](input(i))]));
}

/** Milliseconds that this thread has computed, where Node.js tells. */
function computed() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
}

const tells = process.threadCpuUsage !== undefined;

/** The longest of the calls of a device's methods, by their names: what the thread computed in them, where the system tells. */
function noted(device, now) {
  const longest = new Map();
  const note = (object, names) => {
    for (const name of names) {
      const method = object[name];
      const value = (...given) => {
        const begin = now();
        try {
          return Reflect.apply(method, object, given);
        } finally {
          longest.set(name, Math.max(longest.get(name) ?? 0, now() - begin));
        }
      };
      Object.defineProperty(object, name, { value, configurable: true });
    }
  };
  note(device, ['createBuffer', 'createShaderModule', 'createComputePipelineAsync', 'createBindGroup', 'createCommandEncoder', 'pushErrorScope', 'popErrorScope']);
  note(device.queue, ['submit', 'writeBuffer']);
  return longest;
}

function shown(list) {
  const sorted = list.sort((a, b) => a - b);
  const [p50, p99, most] = [0.5, 0.99, 1].map((part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(1));
  return `${p50} ms in the median, ${p99} at p99, ${most} at most`;
}

/** Says what a piece of work did to the loop. */
async function watch(name, work) {
  /** When they began and ended, and what was computed. */
  const turns = [];
  const collections = [];
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  let last;
  let before;
  const begin = () => [last, before] = [performance.now(), tells && computed()];
  const timer = setInterval(() => {
    turns.push({ from: last, to: performance.now(), own: tells && computed() - before });
    begin();
  }, 1);
  begin();
  const start = performance.now();
  const result = await work();
  const taken = performance.now() - start;
  await later(20);
  clearInterval(timer);
  observer.disconnect();
  console.log(`${name}: ${taken.toFixed(0)} ms; turns of ${shown(turns.map(({ from, to }) => Math.max(0, to - from - 1)))}`);
  if (tells) {
    const without = turns.map(({ from, to, own }) => {
      const within = collections.filter(({ startTime }) => startTime >= from && startTime < to);
      return Math.max(0, own - within.reduce((sum, { duration }) => sum + duration, 0));
    });
    console.log(`  computing ${shown(turns.map(({ own }) => own))}; without garbage collection ${shown(without)}`);
  }
  if (collections.length > 0) console.log(`  ${collections.length} collections of ${shown(collections.map(({ duration }) => duration))}`);
  return result;
}

const { create } = await import('webgpu');
const gpu = create([]);
const adapter = await gpu.requestAdapter();
if (adapter === null) throw new Error('Dawn finds no adapter');
console.log(`Dawn on ${adapter.info?.description || adapter.info?.device}`);

for (const [name, describe] of Object.entries({ bert, operators })) {
  if (options.only !== undefined && !options.only.split(',').includes(name)) continue;
  const device = await (await gpu.requestAdapter()).requestDevice({ requiredFeatures: requiredFeatures(adapter), requiredLimits: requiredLimits(adapter) });
  const longest = options.calls ? noted(device, () => (tells ? computed() : performance.now())) : new Map();
  const context = await ml.createContext(device);
  const builder = new MLGraphBuilder(context);
  const outputs = describe(builder);
  const graph = await watch(`${name}: build()`, () => builder.build(outputs));
  const tensors = async (operands, wish) => {
    const all = operands.map(async ([key, { dataType, shape }]) => [key, await context.createTensor({ dataType, shape, ...wish })]);
    return Object.fromEntries(await Promise.all(all));
  };
  const given = await tensors(name === 'bert' ? [['x', float32(1, 64, 384)]] : Array.from({ length: 200 }, (_, i) => [`x${i}`, float32(1 + (i % 17), 3 + i)]), { writable: true });
  const taken = await tensors(Object.entries(outputs), { readable: true });
  const [first] = Object.values(taken);
  await watch(`${name}: two runs`, async () => {
    for (let run = 0; run < 2; run++) {
      context.dispatch(graph, given, taken);
      await context.readTensor(first);
    }
  });
  for (const [call, ms] of [...longest].sort(([, a], [, b]) => b - a)) console.log(`  ${call}: ${ms.toFixed(2)} ms at most`);
  context.destroy();
  device.destroy();
}
// Dawn's own threads would keep the process.
process.exit();
