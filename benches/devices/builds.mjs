// How long drivers take for the shaders of single operators: build() and the first run, on each driver in software that is there, through
// wgpu and through Dawn (npm's `webgpu`). A driver takes longer for what a generator writes out than for what it computes.
//
//   npm run bench -- shaders [--rounds 3] [--only gru,matmul]
//
// Milliseconds that the process computed, in all threads, which other processes do not make longer; Dawn's module polls while it waits, which is
// among it. The least of the rounds is shown. Each round is a process of its own, so that nothing is compiled twice.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const { values: options } = parseArgs({ options: { rounds: { type: 'string', default: '3' }, only: { type: 'string' }, on: { type: 'string' } } });

const float32 = (...shape) => ({ dataType: 'float32', shape });

/** By name: what a graph is made of, with inputs of these shapes. */
const GRAPHS = {
  add: (b, input) => b.add(input(1024), input(1024)),
  softmax: (b, input) => b.softmax(input(64, 384), 1),
  layerNormalization: (b, input) => b.layerNormalization(input(64, 384), { axes: [1] }),
  'matmul of 64': (b, input) => b.matmul(input(64, 64), input(64, 64)),
  'matmul of 256': (b, input) => b.matmul(input(256, 256), input(256, 256)),
  'conv2d of 3x3': (b, input) => b.conv2d(input(1, 16, 28, 28), input(32, 16, 3, 3), { padding: [1, 1, 1, 1] }),
  // That of a conformance test which kept SwiftShader for over a minute.
  convTranspose2d: (b, input) => b.convTranspose2d(input(1, 1, 3, 3), input(1, 2, 3, 3), { strides: [2, 2] }),
  gru: (b, input) => b.gru(input(4, 2, 16), input(1, 48, 16), input(1, 48, 16), 4, 16)[0],
  lstm: (b, input) => b.lstm(input(4, 2, 16), input(1, 64, 16), input(1, 64, 16), 4, 16)[0],
  gatherND: (b, input) => b.gatherND(input(8, 16), b.constant({ dataType: 'int32', shape: [2, 1] }, new Int32Array([3, 5]))),
};

async function contextOf(on) {
  const { ml } = require('../../lib/index.js');
  if (on !== 'dawn') return ml.createContext({ deviceType: 'gpu' });
  const { create } = await import('webgpu');
  // Kept, since the module's objects do not keep it.
  globalThis.gpu = create([]);
  const adapter = await globalThis.gpu.requestAdapter();
  return ml.createContext(await adapter.requestDevice());
}

/** Milliseconds of processor time so far. */
function computed() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
}

/** Times of each graph: [name, build, first run]. */
async function measure(on) {
  const { MLGraphBuilder } = require('../../lib/index.js');
  const context = await contextOf(on);
  const times = [];
  for (const [name, make] of Object.entries(GRAPHS)) {
    if (options.only && !options.only.split(',').includes(name)) continue;
    const builder = new MLGraphBuilder(context);
    const shapes = {};
    const input = (...shape) => {
      const called = `x${Object.keys(shapes).length}`;
      shapes[called] = shape;
      return builder.input(called, float32(...shape));
    };
    const y = make(builder, input);
    const begin = computed();
    const graph = await builder.build({ y });
    const built = computed();
    const tensor = (shape, how) => context.createTensor({ ...float32(...shape), ...how });
    const inputs = Object.fromEntries(await Promise.all(Object.entries(shapes).map(async ([called, shape]) => [called, await tensor(shape, {})])));
    const output = await tensor(y.shape, { readable: true });
    const run = computed();
    context.dispatch(graph, inputs, { y: output });
    await context.readTensor(output);
    times.push([name, built - begin, computed() - run]);
  }
  return times;
}

/** Drivers by name: the manifests that Vulkan's loader is told. */
function drivers() {
  const found = {};
  const swiftshader = fileURLToPath(new URL('../../target/swiftshader/vk_swiftshader_icd.json', import.meta.url));
  if (existsSync(swiftshader)) found.SwiftShader = swiftshader;
  const folder = '/usr/share/vulkan/icd.d';
  const manifest = existsSync(folder) ? readdirSync(folder).find((name) => name.startsWith('lvp_icd')) : undefined;
  if (manifest) found.llvmpipe = `${folder}/${manifest}`;
  return found;
}

if (options.on) {
  console.log(JSON.stringify(await measure(options.on)));
  process.exit(0);
}
const columns = {};
for (const [driver, manifest] of Object.entries(drivers())) {
  for (const on of ['wgpu', 'dawn']) {
    // Mesa keeps on disk what it compiles.
    const env = { ...process.env, VK_DRIVER_FILES: manifest, VK_ICD_FILENAMES: manifest, MESA_SHADER_CACHE_DISABLE: 'true' };
    const args = [fileURLToPath(import.meta.url), '--on', on, ...(options.only ? ['--only', options.only] : [])];
    for (let round = 0; round < Number(options.rounds); round++) {
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 600_000 });
      if (status !== 0) {
        const lines = stderr.trim().split('\n');
        console.error(`${driver}, ${on}: ${lines.find((line) => /Error/.test(line)) ?? lines.at(-1)}`);
        break;
      }
      for (const [name, ...times] of JSON.parse(stdout.trim().split('\n').at(-1))) {
        const column = ((columns[name] ??= {})[`${driver}, ${on}`] ??= times);
        times.forEach((time, i) => (column[i] = Math.min(column[i], time)));
      }
    }
  }
}
const names = [...new Set(Object.values(columns).flatMap((column) => Object.keys(column)))];
console.log(`| build, first run in ms | ${names.join(' | ')} |\n| --- |${' ---: |'.repeat(names.length)}`);
for (const [graph, column] of Object.entries(columns)) {
  console.log(`| ${graph} | ${names.map((name) => (column[name] ? column[name].map((time) => time.toFixed(0)).join(', ') : '')).join(' | ')} |`);
}
