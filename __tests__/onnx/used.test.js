'use strict';

// C11: memoryUsage() adds up to what the system says that a model has added to a process; and what a load takes at most.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./write.js');

const WIDTH = 1024;
const LAYERS = 24;
const WEIGHTS = 4 * WIDTH * WIDTH * LAYERS;
const program = path.join(__dirname, '..', 'processes', 'used.js');

(process.platform === 'linux' ? describe : describe.skip)('the memory of a model of 100 MB', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-used-'));
  const file = path.join(folder, 'model.onnx');
  const cache = path.join(folder, 'cache');

  beforeAll(() => {
    const names = Array.from({ length: LAYERS }, (_, i) => `w${i}`);
    const weights = (layer) => Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => ((i * 31 + layer * 7919) % 1013) / 65_536);
    const nodes = names.map((name, i) => ({ op: 'MatMul', inputs: [i === 0 ? 'x' : `v${i}`, name], outputs: [i === LAYERS - 1 ? 'y' : `v${i + 1}`] }));
    const initializers = names.map((name, i) => tensor(name, 'float', [WIDTH, WIDTH], weights(i)));
    fs.writeFileSync(file, writeModel({ opset: 21, inputs: [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }], outputs: [{ name: 'y' }], nodes, initializers }));
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  function measure(how, ...more) {
    return JSON.parse(execFileSync(process.execPath, ['--expose-gc', program, how, file, `${WIDTH}`, ...more], { encoding: 'utf8', env: { ...process.env, NODE_NO_WARNINGS: '1' } }));
  }

  test.each([
    ['file', [], 'packed'],
    ['bytes', [], 'sources'],
    ['mapped', [], 'packed'],
    ['cached', [cache], 'packed'],
    // By now it is there.
    ['cached', [cache], 'mapped'],
  ])('%s: the kinds add up to what the system says', (how, more, kind) => {
    const { usage, said, model, grown } = measure(how, ...more);
    expect(usage[kind]).toBeGreaterThan(0.99 * WEIGHTS);
    expect(model).toBeGreaterThan(0.99 * said);
    expect(grown).toBeGreaterThan(0.95 * said);
    expect(grown).toBeLessThan(1.05 * said);
  }, 60_000);

  test('a load takes at most 1.3 times the larger of the file and what is packed', () => {
    const { usage, took } = measure('peak');
    expect(took).toBeGreaterThan(0.9 * WEIGHTS);
    expect(took).toBeLessThan(1.3 * Math.max(usage.packed, fs.statSync(file).size));
  }, 60_000);
});
