'use strict';

// What webnn-node/onnxruntime does with sessions and runs, beyond what can be compared with onnxruntime-node row by row.

const { execFileSync, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { ml } = require('..');
const { toContext } = require('../lib/context.js');
const { loadOnnx } = require('../lib/onnx.js');
const { InferenceSession, Tensor } = require('../lib/onnxruntime.js');
const { identity, single, sums, tensor, value, writeModel } = require('./onnxruntime/models.js');
const { MODELS } = require('./onnxruntime/scalars.js');

const root = path.join(__dirname, '..');
let folder;
beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-onnxruntime-runs-'));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

const floats = (numbers, dims) => new Tensor('float32', Float32Array.from(numbers), dims);
const feeds = () => ({ a: floats([1, 2, 3], [1, 3]), b: floats([4, 5, 6], [1, 3]) });

/** Runs a program in a process of its own, which has the packages of this repository. */
function program(text, type = 'commonjs') {
  return JSON.parse(execFileSync(process.execPath, [`--input-type=${type}`, '-e', text], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
}

describe('models', () => {
  test('an input of any rank', async () => {
    const bytes = writeModel({ opset: 21, inputs: [{ name: 'x' }], outputs: [{ name: 'y' }], nodes: [{ op: 'Abs', inputs: ['x'], outputs: ['y'] }] });
    // The input is of float32 and has no shape: `type { tensor_type { elem_type: 1 } }`.
    const marked = Buffer.from(bytes).toString('latin1').replace('\x5a\x03\x0a\x01x', '\x5a\x09\x0a\x01x\x12\x04\x0a\x02\x08\x01');
    const length = marked.indexOf('\x3a');
    const model = Buffer.from(marked, 'latin1');
    model[length + 1] += 6;
    const session = await InferenceSession.create(model);
    expect(session.inputMetadata).toEqual([{ name: 'x', isTensor: true, type: 'float32', shape: [] }]);
    for (const dims of [[4], [2, 2], [1, 2, 1, 2], []]) {
      const { y } = await session.run({ x: floats(dims.length === 0 ? [-4] : [1, -2, 3, -4], dims) });
      expect([y.dims, [...y.data]]).toEqual([dims, dims.length === 0 ? [4] : [1, 2, 3, 4]]);
    }
  });

  test('inputs and outputs have names that all objects have', async () => {
    const written = (from, to) => writeModel({ opset: 17, inputs: from.map((name) => value(name, 'float', 'n')), outputs: to.map((name) => value(name, 'float', 'n')), nodes: from.map((name, i) => ({ op: 'Neg', inputs: [name], outputs: [to[i]] })) });
    const session = await InferenceSession.create(written(['constructor', 'hasOwnProperty'], ['toString', 'valueOf']));
    const results = await session.run({ constructor: floats([1], [1]), hasOwnProperty: floats([2, 3], [2]) });
    expect(Object.entries(results).map(([name, { data }]) => [name, ...data])).toEqual([['toString', -1], ['valueOf', -2, -3]]);
    // onnxruntime-common cannot feed or fetch '__proto__'.
    const context = await ml.createContext({ accelerated: false });
    for (const [inputs, outputs] of [[['__proto__', 'constructor'], ['valueOf', 'y']], [['constructor', 'x'], ['__proto__', 'toString']]]) {
      const model = await loadOnnx(context, written(inputs, outputs));
      // Each length has a plan of its own.
      for (const length of [1, 2, 2, 1, 1]) {
        const given = inputs.map((name, i) => [name, { data: new Float32Array(length).fill(i + 1), shape: [length] }]);
        const found = await model.run(Object.fromEntries(given));
        expect(Object.entries(found).map(([name, { shape, data }]) => [name, shape, data[length - 1]])).toEqual([[outputs[0], [length], -1], [outputs[1], [length], -2]]);
        expect(Object.getPrototypeOf(found)).toBe(Object.prototype);
      }
    }
  });

  test('dimensions with a hole are refused', async () => {
    const session = await InferenceSession.create(sums);
    const holed = floats([1], [1]);
    holed.dims = [1, , 3]; // eslint-disable-line no-sparse-arrays
    await expect(session.run({ a: holed, b: holed })).rejects.toThrow('Tensor.dims[1] is not a number.');
  });

  test('an input that has a value in the file is none', async () => {
    const weights = tensor('w', 'float', [2], Float32Array.of(1, 2));
    const model = writeModel({ opset: 17, inputs: [value('x', 'float', 2), value('w', 'float', 2)], outputs: [value('y', 'float', 2)], nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }], initializers: [weights] });
    const session = await InferenceSession.create(model);
    expect(session.inputNames).toEqual(['x']);
    expect([...(await session.run({ x: floats([1, 1], [2]), w: floats([9, 9], [2]) })).y.data]).toEqual([2, 3]);
  });

  test('integers of 4 bits', async () => {
    for (const [type, bytes, numbers] of [['int4', [0x21, 0xf3, 0x08], [1, 2, 3, -1, -8]], ['uint4', [0x21, 0xf3, 0x08], [1, 2, 3, 15, 8]]]) {
      const same = await InferenceSession.create(identity(type));
      const { y } = await same.run({ x: new Tensor(type, Uint8Array.from(bytes), [1, 5]) });
      expect([same.inputMetadata[0].type, y.type, y.dims, [...y.data]]).toEqual([type, type, [1, 5], bytes]);
      const scale = tensor('s', 'float', [], Float32Array.of(0.5));
      const zero = tensor('z', type, [], Uint8Array.of(1));
      const node = { op: 'DequantizeLinear', opset: 21, inputs: [value('x', type, 5)], initializers: [scale, zero] };
      const { y: floating } = await (await InferenceSession.create(single(node))).run({ x: new Tensor(type, Uint8Array.from(bytes), [5]) });
      expect([...floating.data]).toEqual(numbers.map((number) => (number - 1) / 2));
      const back = { op: 'QuantizeLinear', opset: 21, inputs: [value('x', 'float', 5)], output: value('y', type, 5), initializers: [scale, zero] };
      const { y: quantized } = await (await InferenceSession.create(single(back))).run({ x: floats(floating.data, [5]) });
      expect([quantized.type, [...quantized.data]]).toEqual([type, bytes]);
    }
  });

  test('strings are refused', async () => {
    const session = await InferenceSession.create(sums);
    await expect(session.run({ a: new Tensor('string', ['x'], [1]), b: feeds().b })).rejects.toThrow('strings');
  });

  describe('externalData', () => {
    const weights = Float32Array.of(10, 20, 30);
    /** `y = x + w`, where w is in the file `weights.bin`. */
    const model = () => {
      const proto = { name: 'w', dims: [3], dataType: 1, dataLocation: 1, externalData: [{ key: 'location', value: 'weights.bin' }] };
      return writeModel({ opset: 17, inputs: [value('x', 'float', 3)], outputs: [value('y', 'float', 3)], nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }], initializers: [proto] });
    };
    const bytes = () => new Uint8Array(weights.buffer.slice(0));
    const result = async (source, options) => {
      const session = await InferenceSession.create(source, options);
      return [...(await session.run({ x: floats([1, 2, 3], [3]) })).y.data];
    };
    const expected = [11, 22, 33];

    test('bytes, for a model in memory', async () => {
      expect(await result(model(), { externalData: [{ path: 'weights.bin', data: bytes() }] })).toEqual(expected);
      expect(await result(model(), { externalData: [{ path: './weights.bin', data: Buffer.from(bytes()) }] })).toEqual(expected);
    });

    test('paths', async () => {
      const file = path.join(folder, 'weights.bin');
      fs.writeFileSync(file, bytes());
      expect(await result(model(), { externalData: [file] })).toEqual(expected);
      expect(await result(model(), { externalData: [{ path: 'weights.bin', data: file }] })).toEqual(expected);
      await expect(result(model(), { externalData: [path.join(folder, 'missing', 'weights.bin')] })).rejects.toThrow('missing');
    });

    test('beside the model, unless it is given', async () => {
      const file = path.join(folder, 'model.onnx');
      fs.writeFileSync(file, model());
      fs.writeFileSync(path.join(folder, 'weights.bin'), bytes());
      expect(await result(file)).toEqual(expected);
      expect(await result(file, { externalData: [{ path: 'weights.bin', data: new Uint8Array(12) }] })).toEqual([1, 2, 3]);
    });

    test('a model in memory without them is refused', async () => {
      await expect(result(model())).rejects.toThrow('weights.bin');
      await expect(result(model(), { externalData: [{ path: 'weights.bin', data: new Uint8Array(4) }] })).rejects.toThrow();
    });
  });

  test('what follows for an output that is declared as a scalar and is none', async () => {
    const { outputMetadata } = await InferenceSession.create(MODELS['an output that is declared as a scalar']);
    expect(outputMetadata).toEqual([{ name: 'y', isTensor: true, type: 'float32', shape: ['n', 4] }]);
  });

  test('freeDimensionOverrides', async () => {
    const session = await InferenceSession.create(sums, { freeDimensionOverrides: { n: 1, other: 7 } });
    expect(session.inputMetadata[0].shape).toEqual([1, 3]);
    expect(session.outputMetadata[1].shape).toEqual([1, 3]);
    expect([...(await session.run(feeds())).c.data]).toEqual([5, 7, 9]);
    const two = floats([1, 2, 3, 4, 5, 6], [2, 3]);
    await expect(session.run({ a: two, b: two })).rejects.toThrow('Got: 2 Expected: 1');
    await expect(InferenceSession.create(sums, { freeDimensionOverrides: { n: 'x' } })).rejects.toThrow(TypeError);
  });
});

describe('runs', () => {
  test("what is fed is copied at the call, and outputs of the caller's are what is given back", async () => {
    const session = await InferenceSession.create(sums);
    const given = feeds();
    const c = floats([0, 0, 0], [1, 3]);
    const run = session.run(given, { c });
    given.a.data.fill(0);
    const results = await run;
    expect(results.c).toBe(c);
    expect([...c.data]).toEqual([5, 7, 9]);
  });

  test('tensors of another version of onnxruntime-common are taken by their members', async () => {
    class Other {
      constructor(data, dims) {
        Object.assign(this, { type: 'float32', data, dims, location: 'cpu', size: data.length });
      }
    }
    const session = await InferenceSession.create(sums);
    const { c } = await session.run({ a: new Other(Float32Array.of(1, 2, 3), [1, 3]), b: feeds().b });
    expect(c).toBeInstanceOf(Tensor);
    expect([...c.data]).toEqual([5, 7, 9]);
  });

  test('while runs are under way there is no release() and no endProfiling()', async () => {
    const session = await InferenceSession.create(sums);
    const runs = [session.run(feeds()), session.run(feeds())];
    await expect(session.release()).rejects.toThrow('Cannot dispose session while inference is running.');
    expect(() => session.endProfiling()).toThrow('Cannot end profiling while inference is running.');
    expect((await Promise.all(runs)).map(({ c }) => [...c.data])).toEqual([[5, 7, 9], [5, 7, 9]]);
    const failed = session.run({ ...feeds(), a: floats([1, 2], [2]) });
    await expect(failed).rejects.toThrow();
    await session.release();
    await expect(session.release()).rejects.toThrow('Session already disposed.');
  });

  test('release() waits until the context has let go of what the session had, and of plans that are made ahead', async () => {
    const context = await ml.createContext({ accelerated: false });
    const { order, handle } = toContext(context);
    for (const lengths of [[1], [1, 3, 9, 20]]) {
      const session = await InferenceSession.create(sums, { executionProviders: [{ name: 'webnn', context }] });
      for (const n of lengths) await session.run({ a: floats(new Array(3 * n).fill(1), [n, 3]), b: floats(new Array(3 * n).fill(2), [n, 3]) });
      const asked = [];
      const { awaitContext, destroyGraph } = order;
      order.destroyGraph = (...args) => (asked.push('destroyGraph'), destroyGraph.apply(order, args));
      order.awaitContext = (...args) => (asked.push('awaitContext'), awaitContext.apply(order, args));
      await session.release();
      Object.assign(order, { awaitContext, destroyGraph });
      // The last one, so that nothing is destroyed after it.
      expect(asked.length).toBeGreaterThan(lengths.length);
      expect(asked.indexOf('awaitContext')).toBe(asked.length - 1);
      expect(order.memoryUsage(handle).graphs).toBe(0);
    }
    context.destroy();
    // A context that is gone keeps nobody waiting.
    const other = await ml.createContext({ accelerated: false });
    const session = await InferenceSession.create(sums, { executionProviders: [{ name: 'webnn', context: other }] });
    other.destroy();
    await session.release();
  });

  test('inputs may be disposed of meanwhile', async () => {
    const session = await InferenceSession.create(sums);
    const given = feeds();
    const runs = [session.run(given), session.run(given)];
    given.a.dispose();
    Object.getPrototypeOf(given.b).dispose.call(given.b);
    expect((await Promise.all(runs)).map(({ c }) => [...c.data])).toEqual([[5, 7, 9], [5, 7, 9]]);
  });

  test("an output of the caller's whose buffer is gone", async () => {
    const session = await InferenceSession.create(sums);
    const c = floats([0, 0, 0], [1, 3]);
    const run = session.run(feeds(), { c });
    structuredClone(c.data.buffer, { transfer: [c.data.buffer] });
    await expect(run).rejects.toThrow('Preallocated output tensor buffer was detached');
    await session.release();
  });

  describe('that are given up', () => {
    const long = (isCut) => {
      const size = 64;
      const nodes = Array.from({ length: 8 }, (_, i) => ({ op: 'MatMul', inputs: [i === 0 ? 'x' : `v${i}`, 'x'], outputs: [`v${i + 1}`] }));
      const cut = [{ op: 'NonZero', inputs: ['v8'], outputs: ['places'] }, { op: 'Cast', inputs: ['places'], outputs: ['y'], attributes: { to: 1 } }];
      const end = isCut ? cut : [{ op: 'Neg', inputs: ['v8'], outputs: ['y'] }];
      return writeModel({ opset: 17, inputs: [value('x', 'float', size, size)], outputs: [{ name: 'y', type: 'float', shape: [null, null] }], nodes: [...nodes, ...end] });
    };
    const x = () => floats(new Float32Array(64 * 64), [64, 64]);

    test.each([['one graph', false], ['a model that is cut', true]])('%s', async (_, isCut) => {
      const session = await InferenceSession.create(long(isCut));
      const options = { terminate: false };
      const run = session.run({ x: x() }, options);
      options.terminate = true;
      await expect(run).rejects.toThrow('Exiting due to terminate flag being set to true.');
      await expect(session.run({ x: x() }, { terminate: true })).rejects.toThrow('terminate');
      const controller = new AbortController();
      const aborted = session.run({ x: x() }, { signal: controller.signal });
      const reason = new Error('not wanted any more');
      controller.abort(reason);
      await expect(aborted).rejects.toBe(reason);
      await expect(session.run({ x: x() }, { signal: controller.signal })).rejects.toBe(reason);
      await expect(session.run({ x: x() }, { signal: 1 })).rejects.toThrow(TypeError);
      // One that was done before anybody looked is given up too.
      const late = { terminate: false };
      const done = session.run({ x: x() }, late);
      const before = session.run({ x: x() }, { terminate: false });
      late.terminate = true;
      await before;
      await expect(done).rejects.toThrow('terminate');
      // Others are not concerned.
      expect((await session.run({ x: x() }, { terminate: false })).y.type).toBe('float32');
    });
  });
});

test('profiling writes what onnxruntime writes: a list of events', async () => {
  const prefix = path.join(folder, 'profile');
  const session = await InferenceSession.create(sums, { enableProfiling: true, profileFilePrefix: prefix });
  await session.run(feeds());
  await session.run(feeds());
  session.startProfiling();
  expect(session.endProfiling()).toBeUndefined();
  const files = fs.readdirSync(folder).filter((name) => name.startsWith('profile'));
  expect(files).toEqual([expect.stringMatching(/^profile_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{3}\.json$/)]);
  const events = JSON.parse(fs.readFileSync(path.join(folder, files[0]), 'utf8'));
  for (const event of events) expect(event).toMatchObject({ cat: expect.any(String), pid: process.pid, tid: expect.any(Number), dur: expect.any(Number), ts: expect.any(Number), ph: 'X', name: expect.any(String), args: {} });
  const count = (cat, name) => events.filter((event) => event.cat === cat && event.name.includes(name)).length;
  expect([count('Session', 'model_loading_array'), count('Session', 'session_initialization'), count('Session', 'model_run')]).toEqual([1, 1, 2]);
  expect(events.filter(({ cat, args }) => cat === 'Node' && ['add', 'mul'].includes(args.op_name.toLowerCase())).length).toBe(4);
  await session.release();
});

describe('with other packages', () => {
  test('both engines in one process: each computes its own, and the registry has only theirs', () => {
    const [counts, names, same, theirs, ours] = program(`
      const native = require('./lib/native.js');
      const { onnxruntimeBackend } = require('onnxruntime-node/dist/backend');
      const counts = { ours: 0, theirs: 0 };
      const counted = (object, name, key) => {
        const before = object[name];
        object[name] = function (...args) { counts[key]++; return before.apply(this, args); };
      };
      counted(native, 'run', 'ours');
      const { createInferenceSessionHandler } = onnxruntimeBackend;
      onnxruntimeBackend.createInferenceSessionHandler = async (...args) => {
        const handler = await createInferenceSessionHandler(...args);
        counted(handler, 'run', 'theirs');
        return handler;
      };
      const ours = require('webnn-node/onnxruntime');
      const theirs = require('onnxruntime-node');
      const common = require('onnxruntime-common');
      const { sums } = require('./__tests__/onnxruntime/models.js');
      (async () => {
        const a = new ours.Tensor('float32', [1, 2, 3], [1, 3]);
        const seen = [];
        const results = [];
        for (const { InferenceSession } of [ours, theirs, common]) {
          const session = await InferenceSession.create(sums, { executionProviders: ['cpu'] });
          const { c } = await session.run({ a, b: a });
          results.push([c instanceof ours.Tensor, c instanceof theirs.Tensor, [...c.data]]);
          seen.push({ ...counts });
        }
        const same = ['Tensor', 'env', 'registerBackend'].map((name) => ours[name] === common[name]);
        const session = await ours.InferenceSession.create(sums);
        console.log(JSON.stringify([seen, session instanceof common.InferenceSession, same, results[1], results[0]]));
      })();`);
    expect(counts).toEqual([{ ours: 1, theirs: 0 }, { ours: 1, theirs: 1 }, { ours: 1, theirs: 2 }]);
    expect([names, same]).toEqual([true, [true, true, true]]);
    expect([theirs, ours]).toEqual([[true, true, [2, 4, 6]], [true, true, [2, 4, 6]]]);
  });

  test('a session of the registry that names no provider opens one context, and no GPU', () => {
    const result = program(`
      const native = require('./lib/native.js');
      const opened = [];
      const { createContext } = native;
      native.createContext = (...args) => (opened.push(args.filter((arg) => ['cpu', 'gpu', 'npu'].includes(arg))), createContext(...args));
      const { backend, common, listSupportedBackends } = require('webnn-node/onnxruntime/backend');
      for (const { name } of listSupportedBackends()) common.registerBackend(name, backend, 100);
      const { sums } = require('./__tests__/onnxruntime/models.js');
      (async () => {
        for (const options of [undefined, {}, { executionProviders: [] }, { executionProviders: ['cpu', 'webgpu'] }]) await common.InferenceSession.create(sums, options);
        console.log(JSON.stringify(opened));
      })();`);
    expect(result).toEqual([['cpu']]);
  });

  test('import and require give the same objects', () => {
    const result = program(
      `import ort, * as named from 'webnn-node/onnxruntime';
       import { createRequire } from 'node:module';
       const required = createRequire(process.cwd() + '/')('webnn-node/onnxruntime');
       console.log(JSON.stringify([Object.keys(required).sort(), Object.keys(required).every((name) => named[name] === required[name] && ort[name] === required[name])]));`,
      'module',
    );
    expect(result).toEqual([Object.keys(require('onnxruntime-common')).concat('listSupportedBackends').sort(), true]);
  });

  test('without onnxruntime-common it says what to install', () => {
    const copy = path.join(folder, 'node_modules', 'webnn-node');
    fs.cpSync(path.join(root, 'lib'), path.join(copy, 'lib'), { recursive: true });
    fs.copyFileSync(path.join(root, 'package.json'), path.join(copy, 'package.json'));
    fs.symlinkSync(path.join(root, 'native'), path.join(copy, 'native'), 'junction');
    const text = "try { require('webnn-node/onnxruntime') } catch (error) { console.log(JSON.stringify(error.message)) }";
    const output = execFileSync(process.execPath, ['-e', text], { cwd: folder, encoding: 'utf8' });
    expect(JSON.parse(output)).toContain('npm install onnxruntime-common');
  });

  test('in a worker', async () => {
    const text = `
      const { parentPort } = require('node:worker_threads');
      const { InferenceSession, Tensor } = require(${JSON.stringify(path.join(root, 'lib', 'onnxruntime.js'))});
      const { sums } = require(${JSON.stringify(path.join(__dirname, 'onnxruntime', 'models.js'))});
      (async () => {
        const session = await InferenceSession.create(sums);
        const a = new Tensor('float32', [1, 2, 3], [1, 3]);
        parentPort.postMessage([...(await session.run({ a, b: a })).c.data]);
      })();`;
    const workers = [1, 2].map(() => new Worker(text, { eval: true }));
    const results = await Promise.all(workers.map((worker) => once(worker, 'message')));
    expect(results).toEqual([[[2, 4, 6]], [[2, 4, 6]]]);
    await Promise.all(workers.map((worker) => worker.terminate()));
  });

  test('a process ends by itself, and by process.exit(), with sessions that were not released', () => {
    for (const end of ['', 'process.exit(0);']) {
      const result = program(`
        const { InferenceSession, Tensor } = require('webnn-node/onnxruntime');
        const { sums } = require('./__tests__/onnxruntime/models.js');
        (async () => {
          const session = await InferenceSession.create(sums);
          const a = new Tensor('float32', [1, 2, 3], [1, 3]);
          console.log(JSON.stringify([...(await session.run({ a, b: a })).c.data]));
          ${end}
        })();`);
      expect(result).toEqual([2, 4, 6]);
    }
  });

  test('an exception that nobody catches ends a process as ever', () => {
    const text = `
      const { InferenceSession, Tensor } = require('webnn-node/onnxruntime');
      const { sums } = require('./__tests__/onnxruntime/models.js');
      (async () => {
        const session = await InferenceSession.create(sums);
        const a = new Tensor('float32', [1, 2, 3], [1, 3]);
        console.log(\`\${(await session.run({ a, b: a })).c.data}\`);
        setTimeout(() => { throw new Error('on purpose'); }, 1);
      })();`;
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['-e', text], { cwd: root, encoding: 'utf8' });
    expect([status, signal, stdout.trim()]).toEqual([1, null, '2,4,6']);
    expect(stderr).toContain('on purpose');
  });
});

test('sessions are created side by side, and one that fails leaves the others', async () => {
  let turns = 0;
  let isDone = false;
  const turn = () => {
    turns++;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const made = await Promise.allSettled([sums, '/there/is/none.onnx', sums, new Uint8Array([1, 2, 3]), identity('float')].map((model) => InferenceSession.create(model)));
  isDone = true;
  // The event loop went on.
  expect(turns).toBeGreaterThan(0);
  expect(made.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled']);
  for (const { value: session } of made.filter(({ status }) => status === 'fulfilled')) {
    const fed = session.inputNames.length === 2 ? feeds() : { x: floats([1, 2, 3, 4, 5], [1, 5]) };
    expect([...Object.values(await session.run(fed))[0].data]).toEqual(session.inputNames.length === 2 ? [5, 7, 9] : [1, 2, 3, 4, 5]);
    await session.release();
    await expect(session.release()).rejects.toThrow('disposed');
  }
});
