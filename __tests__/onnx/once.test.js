'use strict';

const { execFileSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('./write.js');

const MIB = 2 ** 20;
const WIDTH = 2048;
const LAYERS = 6;

/** Products one after the other: 16 MiB of weights each. */
function model() {
  const initializers = [];
  const nodes = [];
  for (let i = 0; i < LAYERS; i++) {
    const weights = Float32Array.from({ length: WIDTH * WIDTH }, (_, k) => Math.sin(k + i) / WIDTH);
    // Names of all lengths, so that weights begin anywhere in the file.
    initializers.push(tensor('w' + 'x'.repeat(i), 'float', [WIDTH, WIDTH], weights));
    nodes.push({ op: 'MatMul', inputs: [i === 0 ? 'x' : `v${i}`, 'w' + 'x'.repeat(i)], outputs: [i === LAYERS - 1 ? 'y' : `v${i + 1}`] });
  }
  const inputs = [{ name: 'x', type: 'float', shape: [1, WIDTH] }];
  return writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes, initializers });
}

// Elsewhere nothing tells what is resident.
(process.platform === 'linux' ? describe : describe.skip)('the weights of a model that is loaded eight times', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-once-'));
  const file = path.join(folder, 'model.onnx');
  beforeAll(() => writeFileSync(file, model()));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each(['contexts', 'bytes', 'sessions', 'workers', 'builders'])('are there once: %s', (how) => {
    const child = path.join(__dirname, '..', 'processes', 'once.js');
    const arguments_ = ['--expose-gc', child, how, file];
    const { first, last, left, gone, same } = JSON.parse(execFileSync(process.execPath, arguments_, { encoding: 'utf8', timeout: 100_000 }));
    expect(same).toBe(true);
    expect(first).toBeGreaterThan(LAYERS * 16 * MIB);
    // Each context has a thread, and each worker a heap of its own. Arrays of script's stay for a while where they were.
    const others = how === 'contexts' || how === 'sessions' ? 2 * MIB : 12 * MIB;
    expect(last - first).toBeLessThan(0.1 * first + 7 * others);
    // What one of eight needs stays when the others go.
    expect(left).toBeGreaterThan(LAYERS * 16 * MIB);
    // And goes with it.
    expect(gone).toBeLessThan(left - (LAYERS - 2) * 16 * MIB);
  }, 120_000);
});

describe('models that differ have a large constant that is the same once', () => {
  const SIZE = 512;
  const BYTES = 4 * SIZE * SIZE;
  const x = { name: 'x', type: 'float', shape: [1, SIZE] };
  const weights = Float32Array.from({ length: SIZE * SIZE }, (_, k) => Math.sin(k) / SIZE);
  const feeds = { x: Float32Array.from({ length: SIZE }, (_, i) => Math.cos(i)), past: new Float32Array(SIZE) };
  const decoder = writeModel({
    opset: 21,
    inputs: [x],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers: [tensor('w', 'float', [SIZE, SIZE], weights)],
  });
  // Its twin with a past, which has other names, places and nodes.
  const twin = writeModel({
    opset: 21,
    inputs: [x, { ...x, name: 'past' }],
    outputs: [{ name: 'y' }],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'of twin'], outputs: ['new'] },
      { op: 'Mul', inputs: ['past', 'half'], outputs: ['old'] },
      { op: 'Add', inputs: ['new', 'old'], outputs: ['y'] },
    ],
    initializers: [tensor('half', 'float', [1], Float32Array.of(0.5)), tensor('of twin', 'float', [SIZE, SIZE], weights)],
  });

  async function load(bytes, names, options) {
    const context = await ml.createContext({ accelerated: false, ...options });
    const model = await loadOnnx(context, bytes);
    const run = async () => (await model.run(Object.fromEntries(names.map((name) => [name, feeds[name]])))).y.data;
    return { context, y: await run(), run, usage: () => context.memoryUsage() };
  }

  test.each([['of one setting', {}], ['with other threads', { numThreads: 2 }]])('%s', async (_, options) => {
    const [first, second] = [await load(decoder, ['x'], { numThreads: 1 }), await load(twin, ['x', 'past'], { numThreads: 1, ...options })];
    expect(first.usage().packed).toBeGreaterThanOrEqual(BYTES);
    expect(second.usage().packed).toBeLessThan(BYTES / 10);
    expect(second.usage().shared).toBeGreaterThanOrEqual(BYTES);
    expect(second.y).toEqual(first.y);
    // Whoever is left has it.
    first.context.destroy();
    expect(await second.run()).toEqual(first.y);
    second.context.destroy();
    // Nobody keeps it for the next one, which packs it again.
    while (second.usage().shared > 0) await new Promise(setImmediate);
    const third = await load(decoder, ['x'], { numThreads: 1 });
    expect(third.usage()).toMatchObject({ shared: 0 });
    expect(third.usage().packed).toBeGreaterThanOrEqual(BYTES);
    third.context.destroy();
  });
});
