'use strict';

// The cache of packed weights, with real processes.

const { execFile, execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { tensor, writeModel } = require('./onnx/write.js');

const WIDTH = 512;
const LAYERS = 4;
const PACKED = LAYERS * WIDTH * WIDTH * 4;
// Where nobody can set the times of a change, a file for what the weights hash to, one for the structure of the model's file, and one for what of the
// cache its graphs want.
const OF_MODEL = process.platform === 'win32' ? 0 : 3;
const DEPTH = 100;
const NARROW = 128;
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-cache-'));
const model = path.join(root, 'model.onnx');
const quantized = path.join(root, 'quantized.onnx');
const deep = path.join(root, 'deep.onnx');
const program = path.join(__dirname, 'processes', 'cached.js');
const bin = path.join(__dirname, '..', 'bin', 'webnn-node.js');
let uncached;

beforeAll(async () => {
  const names = Array.from({ length: LAYERS }, (_, i) => `w${i}`);
  const weights = (i) => Float32Array.from({ length: WIDTH * WIDTH }, (_, k) => Math.sin(k + i) / WIDTH);
  const nodes = names.map((name, i) => ({ op: 'MatMul', inputs: [i === 0 ? 'x' : `v${i}`, name], outputs: [i === LAYERS - 1 ? 'y' : `v${i + 1}`] }));
  const initializers = names.map((name, i) => tensor(name, 'float', [WIDTH, WIDTH], weights(i)));
  const inputs = [{ name: 'x', type: 'float', shape: [1, WIDTH] }];
  fs.writeFileSync(model, writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes, initializers }));
  writeQuantized();
  writeDeep();
  uncached = await load();
  for (const file of [model, quantized, deep]) await grownOld(file);
}, 60_000);

/** Products with weights in 4 bits, as wide. Half of their scales are float16 numbers. */
function writeQuantized() {
  const names = Array.from({ length: LAYERS }, (_, i) => i);
  const attributes = { K: WIDTH, N: WIDTH, bits: 4, block_size: 32 };
  const scale = (i, k) => (i % 2 === 0 ? (1 + (k % 8)) / 512 : Math.sin(k + 1) / 99);
  const initializers = names.flatMap((i) => [
    tensor(`w${i}`, 'uint8', [WIDTH, WIDTH / 32, 16], Uint8Array.from({ length: (WIDTH * WIDTH) / 2 }, (_, k) => (k * 7 + i) % 251)),
    tensor(`s${i}`, 'float', [(WIDTH * WIDTH) / 32], Float32Array.from({ length: (WIDTH * WIDTH) / 32 }, (_, k) => scale(i, k))),
  ]);
  const value = (i) => (i === 0 ? 'x' : i === LAYERS ? 'y' : `v${i}`);
  const nodes = names.map((i) => ({ domain: 'com.microsoft', op: 'MatMulNBits', inputs: [value(i), `w${i}`, `s${i}`], outputs: [value(i + 1)], attributes }));
  const inputs = [{ name: 'x', type: 'float', shape: [1, WIDTH] }];
  fs.writeFileSync(quantized, writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes, initializers }));
}

/** Many products with small weights. */
function writeDeep() {
  const names = Array.from({ length: DEPTH }, (_, i) => i);
  // Nearly unit matrices.
  const weights = (i) => Float32Array.from({ length: NARROW * NARROW }, (_, k) => (k % (NARROW + 1) === 0 ? 1 : Math.sin(k + i) / 1000));
  const value = (i) => (i === 0 ? 'x' : i === DEPTH ? 'y' : `v${i}`);
  const nodes = names.map((i) => ({ op: 'MatMul', inputs: [value(i), `w${i}`], outputs: [value(i + 1)] }));
  const initializers = names.map((i) => tensor(`w${i}`, 'float', [NARROW, NARROW], weights(i)));
  const inputs = [{ name: 'x', type: 'float', shape: [WIDTH / NARROW, NARROW] }];
  fs.writeFileSync(deep, writeModel({ opset: 21, inputs, outputs: [{ name: 'y' }], nodes, initializers }));
}

/** Waits until a model's file has been as it is for so long that a change would show in its times. */
async function grownOld(file = model) {
  await setTimeout(Math.max(0, fs.statSync(file).ctimeMs + 2500 - Date.now()));
}

afterAll(() => fs.rmSync(root, { recursive: true }));

/** What a process says that loads the model with a cache. */
function load(folder, { environment = {}, command = [process.execPath], of = model } = {}) {
  return new Promise((resolve, reject) => {
    const [file, ...args] = [...command, program, of, String(WIDTH), ...(folder === undefined ? [] : [folder])];
    const options = { env: { ...process.env, ...environment }, timeout: 60_000 };
    const child = execFile(file, args, options, (error, stdout) => (error ? reject(error) : resolve(JSON.parse(stdout))));
    child.stdin.end();
  });
}

const folderNamed = (name) => path.join(root, name);
const packed = (folder) => fs.readdirSync(folder).filter((name) => name.endsWith('.packed'));

test('nothing is cached unless it is wanted', () => {
  expect(uncached.state).toBeUndefined();
});

test('a second process finds what the first one packed', async () => {
  const folder = folderNamed('second');
  const first = await load(folder);
  expect(first).toMatchObject({ digest: uncached.digest, state: { hits: 0, misses: LAYERS, written: LAYERS, damaged: 0 } });
  const second = await load(folder);
  expect(second).toMatchObject({ digest: uncached.digest, state: { hits: LAYERS, misses: 0, written: 0 } });
  // Also for graphs that nobody told.
  const byVariable = await load(undefined, { environment: { WEBNN_CACHE: folder } });
  expect(byVariable).toMatchObject({ digest: uncached.digest, state: { hits: LAYERS, misses: 0 } });
  // On another machine, so to speak.
  const other = await load(folder, { environment: { WEBNN_CPU: 'portable' } });
  expect(other.state.hits).toBe(0);
}, 60_000);

test('sessions have the same cache', async () => {
  const folder = folderNamed('sessions');
  const script = `
    const { InferenceSession } = require(${JSON.stringify(path.join(__dirname, '..', 'lib', 'onnxruntime.js'))});
    const native = require(${JSON.stringify(path.join(__dirname, '..', 'lib', 'native.js'))});
    const of = (cache) => InferenceSession.create(${JSON.stringify(model)}, { intraOpNumThreads: 1, cache });
    (async () => {
      const refused = await of(5).catch(({ name }) => name);
      await of(false);
      const before = native.cacheState();
      await of(${JSON.stringify(folder)});
      native.finishCache();
      console.log(JSON.stringify({ refused, before, state: native.cacheState() }));
    })();`;
  const said = () => JSON.parse(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }));
  expect(said()).toMatchObject({ refused: 'TypeError', state: { hits: 0, written: LAYERS } });
  const second = said();
  expect(second.before).toBeUndefined();
  expect(second.state).toMatchObject({ hits: LAYERS, misses: 0, written: 0 });
}, 60_000);

test('damaged files are packed again', async () => {
  const folder = folderNamed('damaged');
  await load(folder);
  const [cut, changed, empty] = packed(folder).map((name) => path.join(folder, name));
  fs.truncateSync(cut, 5000);
  fs.truncateSync(empty, 0);
  const bytes = fs.readFileSync(changed);
  bytes[bytes.length - 1] ^= 1;
  fs.writeFileSync(changed, bytes);
  const second = await load(folder);
  expect(second).toMatchObject({ digest: uncached.digest, state: { hits: LAYERS - 3, misses: 3, damaged: 3, written: 3 } });
  expect((await load(folder)).state).toMatchObject({ hits: LAYERS });
}, 60_000);

test('files of another version are packed again', async () => {
  const folder = folderNamed('version');
  await load(folder);
  for (const name of fs.readdirSync(folder).filter((name) => name !== 'secret')) {
    const bytes = fs.readFileSync(path.join(folder, name));
    bytes[7] ^= 0xff;
    fs.writeFileSync(path.join(folder, name), bytes);
  }
  const state = { hits: 0, misses: LAYERS, damaged: LAYERS + OF_MODEL, written: LAYERS };
  expect(await load(folder)).toMatchObject({ digest: uncached.digest, state });
  expect((await load(folder)).state).toMatchObject({ hits: LAYERS, damaged: 0 });
}, 60_000);

test('a folder that cannot be written to is read', async () => {
  const folder = folderNamed('read-only');
  await load(folder);
  const [gone] = packed(folder);
  fs.rmSync(path.join(folder, gone));
  const before = fs.readdirSync(folder);
  fs.chmodSync(folder, 0o500);
  const { digest, state } = await load(folder);
  fs.chmodSync(folder, 0o700);
  expect(digest).toBe(uncached.digest);
  expect(state).toMatchObject({ hits: LAYERS - 1, misses: 1, damaged: 0 });
  // The administrator may write anywhere.
  if (process.getuid?.() !== 0 && process.platform !== 'win32') expect(fs.readdirSync(folder)).toEqual(before);
}, 60_000);

test('twenty processes begin together', async () => {
  const folder = folderNamed('race');
  const all = await Promise.all(Array.from({ length: 20 }, () => load(folder)));
  expect(all.map(({ digest }) => digest)).toEqual(Array(20).fill(uncached.digest));
  expect(all.map(({ state }) => state.damaged)).toEqual(Array(20).fill(0));
  expect(fs.readdirSync(folder)).toHaveLength(LAYERS + OF_MODEL + 1);
  expect((await load(folder)).state).toMatchObject({ hits: LAYERS });
}, 120_000);

// They limit files by the shell, and read what processes share from /proc.
(process.platform === 'linux' ? describe : describe.skip)('on Linux', () => {
  test('a disk without room fails no load and keeps no piece of a file', async () => {
    const folder = folderNamed('full');
    const limited = ['sh', '-c', 'ulimit -f 100; exec "$0" "$@"', process.execPath];
    expect(await load(folder, { command: limited })).toMatchObject({ digest: uncached.digest, state: { written: 0 } });
    // The structure has some hundred bytes.
    expect(fs.readdirSync(folder).filter((name) => !name.endsWith('.structure'))).toEqual(['secret']);
  }, 60_000);

  test('a folder that is none, or that all may write to, is as if it were empty', async () => {
    expect(await load(path.join(model, 'below'))).toMatchObject({ digest: uncached.digest });
    const folder = folderNamed('open');
    fs.mkdirSync(folder);
    fs.chmodSync(folder, 0o777);
    const found = await load(folder);
    expect(found).toMatchObject({ digest: uncached.digest });
    expect(found.state).toBeUndefined();
    expect(fs.readdirSync(folder)).toEqual([]);
  }, 60_000);

  test('a later process reads no weights of a file that has not changed', async () => {
    const folder = folderNamed('unread');
    const [first, second] = [await load(folder), await load(folder)];
    expect(first.read).toBeGreaterThan(PACKED);
    expect(second.read).toBeLessThan(PACKED / 4);
    expect(second).toMatchObject({ digest: uncached.digest, state: { hits: LAYERS, misses: 0 } });
    // Without the file of hashes they are read again.
    for (const name of fs.readdirSync(folder).filter((name) => name.endsWith('.hashes'))) fs.rmSync(path.join(folder, name));
    expect((await load(folder)).read).toBeGreaterThan(PACKED);
    expect((await load(folder)).read).toBeLessThan(PACKED / 4);
    // Other weights, in a file of the same size with the same time.
    const before = fs.statSync(model);
    const [bytes, others] = [fs.readFileSync(model), fs.readFileSync(model)];
    others.writeFloatLE(0.5, Math.floor(others.length * 0.4));
    fs.writeFileSync(model, others);
    fs.utimesSync(model, before.atime, before.mtime);
    const changed = await load(folder);
    const own = await load();
    fs.writeFileSync(model, bytes);
    expect(changed.read).toBeGreaterThan(PACKED);
    expect(changed.digest).toBe(own.digest);
    expect(own.digest).not.toBe(uncached.digest);
    // What was written just now may change once more and look the same.
    for (let i = 0; i < 2; i++) {
      const { read } = await load(folder);
      // A slow machine is too late.
      if (Date.now() < fs.statSync(model).ctimeMs + 2000) expect(read).toBeGreaterThan(PACKED);
    }
    await grownOld();
    await load(folder);
    expect((await load(folder)).read).toBeLessThan(PACKED / 4);
  }, 120_000);

  test('a later process reads no weights in 4 bits', async () => {
    const folder = folderNamed('unread-quantized');
    const alone = await load(undefined, { of: quantized });
    const [first, second] = [await load(folder, { of: quantized }), await load(folder, { of: quantized })];
    const bytes = (LAYERS * WIDTH * WIDTH) / 2;
    expect(first.read).toBeGreaterThan(bytes);
    expect(second.read).toBeLessThan(bytes / 2);
    expect(second).toMatchObject({ digest: alone.digest, state: { hits: LAYERS, misses: 0 } });
  }, 60_000);

  test('a later process reads the structure of the model in one piece', async () => {
    const folder = folderNamed('structure');
    const [alone, first] = [await load(undefined, { of: deep }), await load(folder, { of: deep })];
    const structure = () => path.join(folder, fs.readdirSync(folder).find((name) => name.endsWith('.structure')));
    const again = async (damaged) => {
      const found = await load(folder, { of: deep });
      expect(found).toMatchObject({ digest: alone.digest, state: { hits: DEPTH, misses: 0, damaged } });
      return found.read;
    };
    expect(first.digest).toBe(alone.digest);
    const read = await again(0);
    // A page or two between each two weights.
    const between = DEPTH * 4096;
    fs.rmSync(structure());
    expect(await again(0)).toBeGreaterThan(read + between / 2);
    fs.truncateSync(structure(), 300);
    expect(await again(1)).toBeGreaterThan(read + between / 2);
    expect(await again(0)).toBeLessThan(read + between / 2);
    // Other weights in the same places, after a time at which a change would show.
    const bytes = fs.readFileSync(deep);
    bytes.writeFloatLE(0.5, Math.floor(bytes.length * 0.4));
    fs.writeFileSync(deep, bytes);
    await grownOld(deep);
    const [changed, own] = [await load(folder, { of: deep }), await load(undefined, { of: deep })];
    expect(changed.digest).toBe(own.digest);
    expect(own.digest).not.toBe(alone.digest);
  }, 120_000);

  test('processes beside each other share the memory', async () => {
    const folder = folderNamed('shared');
    await load(folder);
    const first = spawn(process.execPath, [program, model, String(WIDTH), folder], { stdio: ['pipe', 'pipe', 'inherit'] });
    await once(first.stdout, 'data');
    const { mapped } = await load(folder);
    first.stdin.end();
    expect(mapped.rss).toBeGreaterThanOrEqual(PACKED);
    expect(mapped.pss).toBeLessThan(0.6 * mapped.rss);
  }, 60_000);
});

test('the command line fills, lists, checks and clears a cache', async () => {
  const folder = folderNamed('command');
  const cache = (...args) => JSON.parse(execFileSync(process.execPath, [bin, 'cache', ...args, '--folder', folder, '--json'], { encoding: 'utf8' }));
  expect(cache('list')).toMatchObject({ bytes: 0, files: [] });
  expect(cache('add', model, '--threads', '1')).toMatchObject({ hits: 0, written: LAYERS });
  expect((await load(folder)).state).toMatchObject({ hits: LAYERS, misses: 0 });
  expect(cache('list').files).toHaveLength(LAYERS + OF_MODEL);
  expect(cache('check').damaged).toEqual([]);
  const [name] = packed(folder);
  fs.truncateSync(path.join(folder, name), 100);
  expect(() => cache('check')).toThrow('Command failed');
  expect(packed(folder)).not.toContain(name);
  expect(cache('check').damaged).toEqual([]);
  expect(cache('clear')).toMatchObject({ removed: LAYERS - 1 + OF_MODEL });
  expect(fs.readdirSync(folder)).toEqual(['secret']);
}, 60_000);

test('the command line fills a cache for shapes that later processes have', () => {
  const folder = folderNamed('shapes');
  const ofRows = path.join(root, 'open.onnx');
  const initializers = [tensor('w', 'float', [WIDTH, WIDTH], new Float32Array(WIDTH * WIDTH).fill(1 / WIDTH))];
  const nodes = [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }];
  fs.writeFileSync(ofRows, writeModel({ opset: 21, inputs: [{ name: 'x', type: 'float', shape: ['rows', WIDTH] }], outputs: [{ name: 'y' }], nodes, initializers }));
  const add = (...args) => JSON.parse(execFileSync(process.execPath, [bin, 'cache', 'add', ofRows, '--threads', '1', ...args, '--folder', folder, '--json'], { encoding: 'utf8' }));
  expect(add('--shape', `x=3x${WIDTH}`)).toMatchObject({ hits: 0, written: 1 });
  expect(add('--shape', `x=3x${WIDTH}`)).toMatchObject({ hits: 1, written: 0 });
  expect(add('--dimension', 'rows=3')).toMatchObject({ hits: 1, written: 0 });
}, 60_000);

test('another folder of a process is refused, and what is no folder', () => {
  const script = `
    const { loadOnnx } = require(${JSON.stringify(path.join(__dirname, '..', 'lib', 'onnx.js'))});
    const { ml } = require(${JSON.stringify(path.join(__dirname, '..'))});
    (async () => {
      const context = await ml.createContext();
      const said = [];
      for (const cache of ${JSON.stringify([folderNamed('one'), folderNamed('two'), 5, ''])}) {
        said.push(await loadOnnx(context, ${JSON.stringify(model)}, { cache }).then(() => 'loaded', ({ name }) => name));
      }
      console.log(JSON.stringify(said));
    })();`;
  const said = JSON.parse(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }));
  expect(said).toEqual(['loaded', 'NotSupportedError', 'TypeError', 'TypeError']);
}, 60_000);
