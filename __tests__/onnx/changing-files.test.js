'use strict';

const { spawnSync } = require('node:child_process');
const { mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./write.js');

const WIDTH = 512;
const LAYERS = 3;
const CHILD = path.join(__dirname, '..', 'processes', 'changing-files.js');

const weights = () =>
  Array.from({ length: LAYERS }, (_, layer) => Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => (((i * 31 + layer * 7) % 17) + 1) / 4096));

/** Products one after the other: y = x · w0 · w1 · w2. */
function model(initializers) {
  return writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }],
    outputs: [{ name: 'y' }],
    initializers,
    nodes: initializers.map(({ name }, i) => ({
      op: 'MatMul',
      inputs: [i === 0 ? 'x' : `v${i}`, name],
      outputs: [i === LAYERS - 1 ? 'y' : `v${i + 1}`],
    })),
  });
}

function expected(all) {
  let row = new Float64Array(WIDTH).fill(0.5);
  for (const matrix of all) {
    const next = new Float64Array(WIDTH);
    for (let i = 0; i < WIDTH; i++) for (let j = 0; j < WIDTH; j++) next[j] += row[i] * matrix[i * WIDTH + j];
    row = next;
  }
  return Float32Array.from(row);
}

/** Files of which one has its weights inside, and one in a file beside it. */
function write(folder) {
  const all = weights();
  mkdirSync(path.join(folder, 'originals'));
  const at = (name) => path.join(folder, 'originals', name);
  writeFileSync(at('inside.onnx'), model(all.map((matrix, i) => tensor(`w${i}`, 'float', [WIDTH, WIDTH], matrix))));
  const bytes = 4 * WIDTH * WIDTH;
  const outside = all.map((_, i) => {
    const entries = { location: 'outside.data', offset: i * bytes, length: bytes };
    const externalData = Object.entries(entries).map(([key, value]) => ({ key, value: String(value) }));
    return { name: `w${i}`, dims: [WIDTH, WIDTH], dataType: 1, dataLocation: 1, externalData };
  });
  writeFileSync(at('outside.onnx'), model(outside));
  writeFileSync(at('outside.data'), Buffer.concat(all.map((matrix) => Buffer.from(matrix.buffer))));
  writeFileSync(path.join(folder, 'expected'), Buffer.from(expected(all).buffer));
}

// Elsewhere a file that is open cannot be removed or replaced.
(process.platform === 'win32' ? describe.skip : describe)('files that change while a model is loaded or run', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-changing-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([1, 2, 3])('give the weights that were there or an error that names the file (%i)', (seed) => {
    const own = mkdtempSync(path.join(folder, 'trials-'));
    write(own);
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, [CHILD, own, seed, 50], { encoding: 'utf8', env: { ...process.env, NODE_NO_WARNINGS: '1' } });
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' });
    const trials = stdout.trim().split('\n').map(JSON.parse);
    expect(trials).toHaveLength(50);
    expect(trials.filter(({ ends }) => ends.some((end) => !['right', 'named', 'refused', 'new'].includes(end)))).toEqual([]);
    // Files that are replaced, removed, renamed or closed to others once they are open are still there.
    const kept = trials.filter(({ kind, when }) => ['replace', 'remove', 'rename', 'rights'].includes(kind) && when !== 'loading');
    expect(kept.length).toBeGreaterThan(0);
    expect(kept.filter(({ ends }) => ends.some((end) => end !== 'right'))).toEqual([]);
  }, 120_000);
});
