'use strict';

const { execFileSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
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
    const { first, last, left, same } = JSON.parse(execFileSync(process.execPath, arguments_, { encoding: 'utf8', timeout: 100_000 }));
    expect(same).toBe(true);
    expect(first).toBeGreaterThan(LAYERS * 16 * MIB);
    // Each context has a thread, and each worker a heap of its own. Arrays of script's stay for a while where they were.
    const others = how === 'contexts' || how === 'sessions' ? 2 * MIB : 12 * MIB;
    expect(last - first).toBeLessThan(0.1 * first + 7 * others);
    // What one of eight needs stays when the others go.
    expect(left).toBeGreaterThan(LAYERS * 16 * MIB);
  }, 120_000);
});
