'use strict';

const { execFileSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./write.js');

const MIB = 2 ** 20;
const WIDTH = 2048;
const BLOCK = 32;
const LAYERS = 24;

/** One product after the other, with weights of 4 bits. float16 holds their scales, which are float32 in the file. */
function model() {
  const blocks = WIDTH / BLOCK;
  const initializers = [];
  const nodes = [];
  for (let i = 0; i < LAYERS; i++) {
    // Names of all lengths, so that weights begin anywhere in the file. No two layers are equal: equal weights are there once.
    const [weights, scales] = ['w', 's'].map((name) => name + 'x'.repeat(i));
    initializers.push(tensor(weights, 'uint8', [WIDTH, blocks, BLOCK / 2], new Uint8Array((WIDTH * WIDTH) / 2).fill(7 * i + 7)));
    initializers.push(tensor(scales, 'float', [WIDTH, blocks], new Float32Array(WIDTH * blocks).fill(2 ** -10)));
    nodes.push({
      op: 'MatMulNBits',
      domain: 'com.microsoft',
      inputs: [i === 0 ? 'x' : `v${i}`, weights, scales],
      outputs: [i === LAYERS - 1 ? 'y' : `v${i + 1}`],
      attributes: { K: WIDTH, N: WIDTH, bits: 4, block_size: BLOCK, accuracy_level: 4 },
    });
  }
  const inputs = [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }];
  return writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes, initializers });
}

// Elsewhere nothing tells what is resident.
(process.platform === 'linux' ? describe : describe.skip)('memory of a model with weights of 4 bits', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-memory-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('is that of its packed weights, not of the file and of copies too', () => {
    const bytes = model();
    const file = path.join(folder, 'model.onnx');
    writeFileSync(file, bytes);
    const child = path.join(__dirname, '..', 'processes', 'weights.js');
    const { peak, resident } = JSON.parse(execFileSync(process.execPath, [child, file, WIDTH], { encoding: 'utf8' }));
    // Four bits each, and a float16 scale for each block.
    const packed = LAYERS * WIDTH * WIDTH * (0.5 + 2 / BLOCK);
    // Beside the weights: what a model and its plans are described by, garbage of script's, and pages of 2 MiB that are not full.
    const others = 12 * MIB;
    expect(peak).toBeLessThan(1.3 * packed + others);
    expect(resident).toBeLessThan(1.15 * bytes.length);
    expect(resident).toBeGreaterThan(packed);
  }, 120_000);
});
