'use strict';

// What the interfaces of one process have in common of a model's weights, and what they have not.

const { execFileSync } = require('node:child_process');
const { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { decoder } = require('../generate/decoders.js');
const { tensor, writeModel } = require('./write.js');

const root = path.join(__dirname, '..', '..');
const program = path.join(root, '__tests__', 'processes', 'shared.js');
const SIZE = 256;

let folder;
const files = {};
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-shared-'));
  const modules = path.join(folder, 'node_modules');
  mkdirSync(modules);
  cpSync(path.join(root, 'packages', 'onnxruntime-node'), path.join(modules, 'onnxruntime-node'), { recursive: true });
  symlinkSync(root, path.join(modules, 'webnn-node'), 'junction');
  files.decoder = path.join(folder, 'decoder.onnx');
  writeFileSync(files.decoder, decoder('concat'));
  const weights = Float32Array.from({ length: SIZE * SIZE }, (_, k) => Math.sin(k) / SIZE);
  const x = { name: 'x', type: 'float', shape: ['N', SIZE] };
  const nodes = [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }];
  files.product = path.join(folder, 'product.onnx');
  writeFileSync(files.product, writeModel({ opset: 21, inputs: [x], outputs: [{ name: 'y' }], nodes, initializers: [tensor('w', 'float', [SIZE, SIZE], weights)] }));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The memory of each of these uses, the first one first, in a process of its own, where all are alive. */
function usages(file, uses, environment = {}) {
  const arguments_ = [program, file, JSON.stringify(uses), path.join(folder, 'node_modules', 'onnxruntime-node')];
  return JSON.parse(execFileSync(process.execPath, arguments_, { encoding: 'utf8', env: { ...process.env, ...environment }, timeout: 50_000 }));
}

const INTERFACES = ['loadOnnx', 'session', 'override'];

test.each(INTERFACES)('all interfaces have the weights that the first one has packed: %s', (name) => {
  const uses = [name, ...INTERFACES.filter((other) => other !== name), name].map((how) => ({ how }));
  const [first, ...others] = usages(files.product, uses);
  expect(first).toMatchObject({ shared: 0 });
  expect(first.packed).toBeGreaterThanOrEqual(4 * SIZE * SIZE);
  for (const other of others) expect(other).toMatchObject({ packed: 0, shared: expect.any(Number) });
  for (const { shared } of others) expect(shared).toBeGreaterThanOrEqual(first.packed);
});

test.each(['generate', 'generateOfSession'])('generate() has the weights of a decoder once: %s', (name) => {
  const uses = [name, 'generate', 'generateOfSession', name].map((how) => ({ how }));
  const [first, ...others] = usages(files.decoder, uses);
  expect(first.packed).toBeGreaterThan(0);
  expect(first.shared).toBe(0);
  for (const other of others) expect(other).toMatchObject({ packed: 0 });
  for (const { shared } of others) expect(shared).toBeGreaterThanOrEqual(first.packed);
});

describe.each(['', 'avx2', 'portable'])('with the kernels of %p', (isa) => {
  const environment = isa === '' ? {} : { WEBNN_CPU: isa };
  const isThere = isa !== 'avx2' || process.arch === 'x64';
  (isThere ? test : test.skip)('weights are shared', () => {
    const [first, second] = usages(files.product, [{ how: 'loadOnnx' }, { how: 'loadOnnx' }], environment);
    expect(second.packed).toBe(0);
    expect(second.shared).toBeGreaterThanOrEqual(first.packed);
  });

  (isThere ? test : test.skip)('weights that another fpMath packs alike are shared, and no others', () => {
    const ofMath = (fpMath) => ({ how: 'loadOnnx', fpMath });
    const [strict, other, same] = usages(files.product, ['strict', 'bf16', 'bf16'].map(ofMath), environment);
    // Whoever computes in bfloat16 has weights of 2 bytes, and otherwise those of the first one or its own.
    expect(other.packed + other.shared).toBeGreaterThanOrEqual(strict.packed / 2);
    expect(same.packed).toBe(0);
    expect(same.shared).toBeGreaterThanOrEqual(other.packed);
  });
});
