'use strict';

// docs/extensions.md D1–D3: running a graph on the caller's memory.

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { Worker, markAsUntransferable } = require('node:worker_threads');
const { MLAwaitedExecution, MLGraphBuilder } = require('..');
const { buildAdder, float32, useContext } = require('./adder.js');
const { passAround } = require('./pass-around.js');

const held = useContext();
const node = parseInt(process.versions.node, 10);

const { Deno: deno } = globalThis;
/** Where an array's memory is, in runtimes that tell: Bun and Deno. */
const addressOf = process.versions.bun ? require('bun:ffi').ptr : deno && ((array) => deno.UnsafePointer.value(deno.UnsafePointer.of(array)));

const floats = (...values) => Float32Array.from(values);

/** `negated = -x` and `doubled = x + x`. */
async function buildTwo(context, descriptor = float32(4)) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', descriptor);
  return builder.build({ negated: builder.neg(x), doubled: builder.add(x, x) });
}

let two;
beforeAll(async () => {
  two = await buildTwo(held.context);
});

describe('D1: compute()', () => {
  test('gives the same memory back in views of the same kinds', async () => {
    const buffer = new ArrayBuffer(64);
    const x = new Float32Array(buffer, 16, 4);
    const negated = new Float32Array(4);
    x.set([1, 2, 3, 4]);
    const promise = held.context.compute(two, { x }, { negated });
    expect([x.byteLength, negated.byteLength, buffer.byteLength]).toEqual([0, 0, 0]);
    const { inputs, outputs } = await promise;
    expect(inputs.x).toEqual(floats(1, 2, 3, 4));
    expect(inputs.x.byteOffset).toBe(16);
    expect(inputs.x.buffer.byteLength).toBe(64);
    expect(outputs).toEqual({ negated: floats(-1, -2, -3, -4) });
  });

  test('the memory is not copied, and what else is in it stays', async () => {
    let buffer = new ArrayBuffer(1 << 16);
    new Uint8Array(buffer).fill(7);
    for (let i = 0; i < 10; i++) {
      const x = new Float32Array(buffer, 0, 4).fill(i);
      const { outputs } = await held.context.compute(two, { x }, { doubled: new Float32Array(buffer, 1024, 4) });
      ({ buffer } = outputs.doubled);
      expect(outputs.doubled).toEqual(floats(2 * i, 2 * i, 2 * i, 2 * i));
    }
    const bytes = new Uint8Array(buffer);
    expect(bytes.subarray(16, 1024).every((byte) => byte === 7) && bytes.subarray(1040).every((byte) => byte === 7)).toBe(true);
  });

  describe('400 MB change hands without a copy', () => {
    if (addressOf) {
      test('they stay at one address', async () => {
        const addresses = [];
        await passAround(held.context, (x) => addresses.push(addressOf(x)));
        expect(addresses).toEqual(Array(4).fill(addresses[0]));
      });
    } else {
      // In a process of its own: what earlier tests have left may still grow. (Bun's allocator touches memory when it clears it.)
      test('the process does not grow by them', () => {
        const { stdout, stderr } = spawnSync(process.execPath, [path.join(__dirname, 'processes', 'untouched.js')], { encoding: 'utf8' });
        expect(stderr).toBe('');
        const { grown, bytes } = JSON.parse(stdout);
        expect(grown).toBeLessThan(bytes / 2);
      });
    }
  });

  test('bytes, also where elements would not lie', async () => {
    const bytes = new Uint8Array(new ArrayBuffer(17), 1);
    bytes.set(new Uint8Array(floats(1, 2, 3, 4).buffer));
    const target = new DataView(new ArrayBuffer(19), 3);
    const { inputs, outputs } = await held.context.compute(two, { x: bytes }, { negated: target });
    expect(inputs.x).toBeInstanceOf(Uint8Array);
    expect(outputs.negated).toBeInstanceOf(DataView);
    expect([0, 4, 8, 12].map((offset) => outputs.negated.getFloat32(offset, true))).toEqual([-1, -2, -3, -4]);
  });

  test('a Buffer of its own memory stays a Buffer', async () => {
    const x = Buffer.alloc(16);
    const { inputs } = await held.context.compute(two, { x: Buffer.from(x.buffer.slice(0, 16)) }, { negated: new Float32Array(4) });
    expect(Buffer.isBuffer(inputs.x)).toBe(true);
  });

  test('one ArrayBuffer behind several views is transferred once', async () => {
    const graph = await buildAdder(held.context, float32(4));
    const buffer = floats(1, 2, 3, 4, 5, 6, 7, 8).buffer;
    const [a, b] = [new Float32Array(buffer, 0, 4), new Float32Array(buffer, 8, 4)];
    const { inputs, outputs } = await held.context.compute(graph, { a, b }, { c: new Float32Array(4) });
    expect(inputs.a.buffer).toBe(inputs.b.buffer);
    expect(outputs.c).toEqual(floats(4, 6, 8, 10));
    const same = new Float32Array(4).fill(2);
    const again = await held.context.compute(graph, { a: same, b: same }, { c: outputs.c });
    expect(again.outputs.c).toEqual(floats(4, 4, 4, 4));
  });

  test('names that are like nothing else', async () => {
    const builder = new MLGraphBuilder(held.context);
    const graph = await builder.build({ ['__proto__']: builder.neg(builder.input('constructor', float32(1))) });
    const inputs = { constructor: floats(3) };
    const outputs = Object.defineProperty({}, '__proto__', { value: floats(0), enumerable: true });
    const result = await held.context.compute(graph, inputs, outputs);
    expect(Object.getOwnPropertyDescriptor(result.outputs, '__proto__').value).toEqual(floats(-3));
    expect(result.inputs.constructor).toEqual(floats(3));
  });

  test('takes its turn among many', async () => {
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, i) => held.context.compute(two, { x: floats(i, i, i, i) }, { doubled: new Float32Array(4) })),
    );
    expect(results.map(({ outputs }) => outputs.doubled[3])).toEqual(results.map((_, i) => 2 * i));
  });

  test('by its other name', async () => {
    const execution = new MLAwaitedExecution(held.context);
    const { outputs } = await execution.compute(two, { x: floats(1, 2, 3, 4) }, { doubled: new Float32Array(4) });
    expect(outputs.doubled).toEqual(floats(2, 4, 6, 8));
    await expect(MLAwaitedExecution.prototype.compute.call({})).rejects.toThrow(TypeError);
    expect(() => new MLAwaitedExecution({})).toThrow(TypeError);
  });
});

describe('D2: nothing is detached when anything is wrong', () => {
  const wasm = () => new Float32Array(new WebAssembly.Memory({ initial: 1 }).buffer, 0, 4);
  const shared = () => new Float32Array(new SharedArrayBuffer(16));
  const pooled = () => {
    const buffer = Buffer.allocUnsafe(64);
    return new Float32Array(buffer.buffer, (buffer.byteOffset + 7) & ~7, 4);
  };
  const resizable = () => new Float32Array(new ArrayBuffer(16, { maxByteLength: 32 }), 0, 4);
  const detached = () => {
    const view = new Float32Array(4);
    structuredClone(view.buffer, { transfer: [view.buffer] });
    return view;
  };
  const good = () => new Float32Array(4);
  const one = new Float32Array(12);

  const cases = [
    ['no output', { x: good() }, {}, "outputs: found no name"],
    ['a missing input', {}, { negated: good() }, "inputs: found no name"],
    ['an unknown input', { y: good() }, { negated: good() }, "found the name 'y'"],
    ['one input too many', { x: good(), y: good() }, { negated: good() }, "found 'x', 'y'"],
    ['an unknown output', { x: good() }, { negated: good(), other: good() }, "found the name 'other'"],
    ['another type', { x: new Int32Array(4) }, { negated: good() }, 'found an Int32Array'],
    ['another length', { x: good() }, { negated: new Float32Array(5) }, 'found 20 bytes'],
    ['no view', { x: new ArrayBuffer(16) }, { negated: good() }, 'found an ArrayBuffer'],
    ['null', { x: null }, { negated: good() }, 'found null'],
    ['shared memory', { x: shared() }, { negated: good() }, 'SharedArrayBuffer'],
    ['a shared output', { x: good() }, { negated: shared() }, 'SharedArrayBuffer'],
    ['a detached input', { x: detached() }, { negated: good() }, 'detached'],
    ['resizable memory', { x: good() }, { negated: resizable() }, 'resizable'],
    ['memory of WebAssembly', { x: wasm() }, { negated: good() }, 'cannot be transferred'],
    ['an output in WebAssembly', { x: good() }, { negated: wasm() }, 'cannot be transferred'],
    ["Node's pool of Buffers", { x: good() }, { negated: pooled() }, 'cannot be transferred'],
    ['overlapping an input', { x: one.subarray(0, 4) }, { negated: one.subarray(3, 7) }, "'negated': found memory that overlaps that of 'x'"],
    ['the very same view', { x: one.subarray(0, 4) }, { negated: one.subarray(0, 4) }, 'overlaps'],
    ['overlapping outputs', { x: good() }, { negated: one.subarray(0, 4), doubled: one.subarray(2, 6) }, 'overlaps'],
  ];

  test.each(cases)('%s', async (_, inputs, outputs, message) => {
    const views = [...Object.values(inputs), ...Object.values(outputs)];
    const lengths = views.map((view) => view?.byteLength);
    await expect(held.context.compute(two, inputs, outputs)).rejects.toThrow(TypeError);
    await expect(held.context.compute(two, inputs, outputs, { label: 'mine' })).rejects.toThrow(message);
    await expect(held.context.compute(two, inputs, outputs, { label: 'mine' })).rejects.toThrow(/^compute( \[mine\])?: /);
    expect(views.map((view) => view?.byteLength)).toEqual(lengths);
  });

  test('arguments that are none', async () => {
    await expect(held.context.compute()).rejects.toThrow('compute: found 0 arguments, required are 3');
    await expect(held.context.compute({}, {}, {})).rejects.toThrow("graph");
    await expect(held.context.compute(two, 1, {})).rejects.toThrow("inputs");
    await expect(held.context.compute.call({}, two, {}, {})).rejects.toThrow(TypeError);
    const [x, negated] = [good(), good()];
    await expect(held.context.compute(two, { x }, { negated }, { label: Symbol('no') })).rejects.toThrow("label");
    expect([x.length, negated.length]).toEqual([4, 4]);
  });

  test('what cannot be told beforehand comes back', async () => {
    const [x, negated] = [good(), new Float32Array(4)];
    markAsUntransferable(negated.buffer);
    const error = await held.context.compute(two, { x }, { negated }).catch((reason) => reason);
    expect(error).toBeInstanceOf(TypeError);
    expect(negated.length).toBe(4);
    if (node >= 22) expect(x.length).toBe(4);
    else expect([error.inputs.x.length, error.outputs.negated]).toEqual([4, negated]);
  });
});

describe('D3: nobody loses their memory', () => {
  const views = () => [{ x: floats(1, 2, 3, 4) }, { negated: new Float32Array(4) }];

  function expectMemory(error, name) {
    expect(error).toBeInstanceOf(DOMException);
    expect(error.name).toBe(name);
    expect(error.inputs.x).toEqual(floats(1, 2, 3, 4));
    expect(error.outputs.negated).toHaveLength(4);
  }

  test('when the graph is destroyed meanwhile', async () => {
    const graph = await buildTwo(held.context);
    const promise = held.context.compute(graph, ...views());
    graph.destroy();
    expectMemory(await promise.catch((error) => error), 'InvalidStateError');
    await expect(held.context.compute(graph, ...views())).rejects.toThrow('destroyed');
  });

  test('when the context is destroyed meanwhile', async () => {
    const { ml } = require('..');
    const context = await ml.createContext();
    const graph = await buildTwo(context);
    const promises = Array.from({ length: 50 }, () => context.compute(graph, ...views()));
    context.destroy();
    const results = await Promise.allSettled(promises);
    results.forEach(({ reason }) => expectMemory(reason, 'InvalidStateError'));
    await expect(context.compute(graph, ...views())).rejects.toThrow('destroyed');
  });

  test('a graph may be destroyed when all is over', async () => {
    const graph = await buildTwo(held.context);
    await held.context.compute(graph, ...views());
    graph.destroy();
  });
});

test('A5: a worker may end while it computes', async () => {
  const program = `
    const { ml, MLGraphBuilder } = require(${JSON.stringify(require.resolve('..'))});
    const { parentPort } = require('node:worker_threads');
    (async () => {
      const context = await ml.createContext();
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', { dataType: 'float32', shape: [1 << 20] });
      const graph = await builder.build({ y: builder.exp(builder.tanh(builder.exp(x))) });
      for (let i = 0; i < 5; i++) {
        context.compute(graph, { x: new Float32Array(1 << 20) }, { y: new Float32Array(1 << 20) }).catch(() => {});
      }
      parentPort.postMessage('started');
    })();`;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(program, { eval: true });
    await new Promise((resolve, reject) => {
      worker.once('message', resolve).once('error', reject);
    });
    await worker.terminate();
  }
});
