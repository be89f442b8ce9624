'use strict';

// loadOnnx() and what it gives, as a user calls it.

const { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setImmediate: nextRound } = require('node:timers/promises');
const { pathToFileURL } = require('node:url');
const { MLGraph, MLTensor, ml } = require('webnn-node');
const { OnnxModel, inspectOnnx, loadOnnx } = require('webnn-node/onnx');
const { MOST, OutputPrefetch } = require('../../lib/onnx/output-prefetch.js');
const { generator } = require('./random.js');
const { tensor, writeModel } = require('./write.js');

/** The results of a run as arrays. */
async function runArrays(model, ...given) {
  const results = await model.run(...given);
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, data]));
}
const readArray = async (bindings, name) => (await bindings.read(name)).data;

let context;
let folder;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-models-'));
});
afterAll(() => {
  context.destroy();
  rmSync(folder, { recursive: true });
});

/** y = x + 1 and z = y * 2 for x of [batch, 3]. */
function small(batch = 2) {
  return writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [batch, 3] }],
    outputs: [{ name: 'y' }, { name: 'z' }],
    initializers: [tensor('one', 'float', [], Float32Array.of(1)), tensor('two', 'float', [], Float32Array.of(2))],
    nodes: [
      { op: 'Add', inputs: ['x', 'one'], outputs: ['y'] },
      { op: 'Mul', inputs: ['y', 'two'], outputs: ['z'] },
    ],
  });
}

const six = Float32Array.of(0, 1, 2, 3, 4, 5);

describe('initializers that are inputs too', () => {
  const model = () =>
    writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [2, 3] }, { name: 'w', type: 'float', shape: ['rows', 3] }, { name: 'b', type: 'float', shape: [3] }],
      outputs: [{ name: 'y' }],
      initializers: [tensor('w', 'float', [1, 3], Float32Array.of(1, 2, 3)), tensor('b', 'float', [3], Float32Array.of(10, 20, 30)), tensor('c', 'float', [], Float32Array.of(0))],
      nodes: [
        { op: 'Mul', inputs: ['x', 'w'], outputs: ['p'] },
        { op: 'Add', inputs: ['p', 'b'], outputs: ['y'] },
      ],
    });
  const x = Float32Array.of(0, 1, 2, 3, 4, 5);
  const w = Float32Array.of(-1, 0, 1);

  test('are constants', async () => {
    const loaded = await loadOnnx(context, model());
    expect(loaded.inputs).toEqual([{ name: 'x', type: 'float32', dataType: 'float32', shape: [2, 3] }]);
    expect((await runArrays(loaded, { x })).y).toEqual(Float32Array.of(10, 22, 36, 13, 28, 45));
    await expect(runArrays(loaded, { x, w })).rejects.toThrow(/'x', 'w'/);
    loaded.destroy();
  });

  test('can be passed where they are named, and have their values otherwise', async () => {
    const loaded = await loadOnnx(context, model(), { overridable: ['w'] });
    expect(loaded.inputs).toEqual([
      { name: 'x', type: 'float32', dataType: 'float32', shape: [2, 3] },
      { name: 'w', type: 'float32', dataType: 'float32', shape: [1, 3], optional: true },
    ]);
    const [plain, passed, again] = await Promise.all([runArrays(loaded, { x }), runArrays(loaded, { x, w }), runArrays(loaded, { x })]);
    expect(plain.y).toEqual(Float32Array.of(10, 22, 36, 13, 28, 45));
    expect(passed.y).toEqual(Float32Array.of(10, 20, 32, 7, 20, 35));
    expect(again.y).toEqual(plain.y);
    await expect(runArrays(loaded, { w })).rejects.toThrow(/found 'w'/);
    await expect(runArrays(loaded, { x, w: x })).rejects.toThrow(/found 6 elements, allowed 3/);
    await expect(runArrays(loaded, { x, w: undefined })).rejects.toThrow(/'w': found undefined/);
    const bindings = await loaded.createBindings();
    bindings.write('x', x);
    bindings.dispatch();
    expect(await readArray(bindings, 'y')).toEqual(plain.y);
    bindings.destroy();
    loaded.destroy();
  });

  test('are named by what is one', async () => {
    await expect(loadOnnx(context, model(), { overridable: ['c'] })).rejects.toThrow(/overridable.*"c".*"w", "b"/);
    await expect(loadOnnx(context, model(), { overridable: 'w' })).rejects.toThrow(/an array of names/);
  });
});

describe('maxBytes of run()', () => {
  let model;
  beforeAll(async () => {
    model = await loadOnnx(context, small(), { label: 'small' });
  });
  afterAll(() => model.destroy());

  // x, y and z have 24 bytes each.
  test('what takes more is refused with both numbers', async () => {
    await expect(runArrays(model, { x: six }, { maxBytes: 71 })).rejects.toMatchObject({
      name: 'OperationError',
      message: 'run [small]: a run takes 72 bytes (72 of inputs and outputs, 0 of values in between), allowed at most 71 (maxBytes)',
    });
  });

  test('what takes as much, or has no limit, runs', async () => {
    for (const options of [undefined, {}, { maxBytes: 72 }, { maxBytes: Infinity }]) {
      const { y } = await runArrays(model, { x: six }, options);
      expect(y).toEqual(six.map((x) => x + 1));
    }
  });

  test('what is no number of bytes is refused', async () => {
    for (const options of [null, 5, { maxBytes: -1 }, { maxBytes: NaN }, { maxBytes: '72' }]) {
      await expect(runArrays(model, { x: six }, options)).rejects.toThrow(TypeError);
    }
  });
});

/** A file of about 100 bytes: y is the mean of a number that is repeated. */
function repeated(count) {
  return writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [1, 1] }],
    outputs: [{ name: 'y' }],
    initializers: [tensor('shape', 'int64', [2], BigInt64Array.of(2n, BigInt(count)))],
    nodes: [
      { op: 'Expand', inputs: ['x', 'shape'], outputs: ['many'] },
      { op: 'Softmax', inputs: ['many'], outputs: ['even'] },
      { op: 'ReduceMean', inputs: ['even'], outputs: ['y'], attributes: { keepdims: 0 } },
    ],
  });
}

describe('maxBytes of loadOnnx()', () => {
  test('by default a small file may take 1 GiB, and not more', async () => {
    const found = /^build \[huge\]: found a graph that takes (\d+) bytes \(\d+ of weights, 8 of inputs and outputs, \d+ of values in between\), allowed at most (\d+) \(maxBytes\)$/;
    const error = await loadOnnx(context, repeated(2 ** 28), { label: 'huge' }).catch((reason) => reason);
    expect(error).toMatchObject({ name: 'OperationError', message: expect.stringMatching(found) });
    const [, takes, allowed] = found.exec(error.message).map(Number);
    const bytes = repeated(2 ** 28).length;
    expect(takes).toBeGreaterThan(2 ** 31);
    expect(allowed).toBe(2 ** 30 + 64 * bytes + 256 * 4);
  });

  test('the caller decides', async () => {
    const source = repeated(1000);
    await expect(loadOnnx(context, source, { maxBytes: 8000 })).rejects.toMatchObject({ name: 'OperationError' });
    for (const maxBytes of [undefined, 20_000, Infinity]) {
      const model = await loadOnnx(context, source, { maxBytes });
      const { y } = await runArrays(model, { x: Float32Array.of(5) }, { maxBytes });
      expect(y[0]).toBeCloseTo(1e-3, 9);
      await expect(runArrays(model, { x: Float32Array.of(5) }, { maxBytes: 7999 })).rejects.toMatchObject({ name: 'OperationError' });
      model.destroy();
    }
    for (const maxBytes of [null, -1, NaN, '7']) {
      await expect(loadOnnx(context, source, { maxBytes })).rejects.toThrow(TypeError);
    }
  });

  test('a chain that doubles takes no more at load than its sizes tell', async () => {
    const nodes = [{ op: 'Expand', inputs: ['one', 'shape'], outputs: ['d0'] }];
    for (let i = 0; i < 40; i++) nodes.push({ op: 'Concat', inputs: [`d${i}`, `d${i}`], outputs: [`d${i + 1}`], attributes: { axis: 0 } });
    const source = (steps) =>
      writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: [1] }],
        outputs: [{ name: 'y' }],
        initializers: [tensor('one', 'float', [1], Float32Array.of(1)), tensor('shape', 'int64', [1], BigInt64Array.of(1n))],
        nodes: [...nodes.slice(0, steps + 1), { op: 'Add', inputs: ['x', `d${steps}`], outputs: ['y'] }],
      });
    const model = await loadOnnx(context, source(20));
    expect((await runArrays(model, { x: Float32Array.of(2) })).y.every((x) => x === 3)).toBe(true);
    model.destroy();
    await expect(loadOnnx(context, source(29))).rejects.toMatchObject({ name: 'OperationError', message: expect.stringContaining('maxBytes') });
    await expect(loadOnnx(context, source(40))).rejects.toMatchObject({ name: 'NotSupportedError' });
  });
});

describe('loadOnnx()', () => {
  test('takes bytes, a path and a URL', async () => {
    const file = path.join(folder, 'small.onnx');
    writeFileSync(file, small());
    const bytes = small();
    for (const source of [bytes, Uint8Array.from(bytes).buffer, file, pathToFileURL(file)]) {
      const model = await loadOnnx(context, source, { label: 'small' });
      expect(model).toBeInstanceOf(OnnxModel);
      expect(model.label).toBe('small');
      expect(model.graph).toBeInstanceOf(MLGraph);
      expect(model.inputs).toEqual([{ name: 'x', type: 'float32', dataType: 'float32', shape: [2, 3] }]);
      expect(model.outputs).toEqual(['y', 'z'].map((name) => ({ name, type: 'float32', dataType: 'float32', shape: [2, 3] })));
      expect(await runArrays(model, { x: six })).toEqual({ y: six.map((x) => x + 1), z: six.map((x) => 2 * x + 2) });
      model.destroy();
    }
  });

  test('names the element types of the file, of which several are one data type', async () => {
    const shape = [2];
    const types = { bool: 'bool', uint8: 'uint8', double: 'float64', float: 'float32' };
    const [inputs, outputs] = ['in', 'out'].map((end) => Object.keys(types).map((type) => ({ name: `${type} ${end}`, type, shape })));
    const nodes = Object.keys(types).map((type) => ({ op: 'Identity', inputs: [`${type} in`], outputs: [`${type} out`] }));
    const model = await loadOnnx(context, writeModel({ opset: 17, inputs, outputs, nodes }));
    for (const list of [model.inputs, model.outputs]) {
      expect(list.map(({ type, dataType }) => [type, dataType])).toEqual([
        ['bool', 'uint8'], ['uint8', 'uint8'], ['float64', 'float32'], ['float32', 'float32'],
      ]);
    }
    model.destroy();
  });

  test('fixes free dimensions, and says which are unknown', async () => {
    const model = await loadOnnx(context, small('batch'), { freeDimensions: { batch: 2 } });
    expect(model.inputs[0].shape).toEqual([2, 3]);
    model.destroy();
    await expect(loadOnnx(context, small('batch'), { freeDimensions: { batch: 2, bach: 1 } })).rejects.toThrow('"bach"');
    for (const size of [-1, 1.5, NaN, '2', 2 ** 31]) {
      await expect(loadOnnx(context, small('batch'), { freeDimensions: { batch: size } })).rejects.toThrow(TypeError);
    }
  });

  test('reports all nodes that cannot be run', async () => {
    const model = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [2] }],
      outputs: [{ name: 'c' }],
      nodes: [
        { op: 'StringNormalizer', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'ImageDecoder', name: 'second', inputs: ['x'], outputs: ['b'] },
        { op: 'Add', inputs: ['a', 'b'], outputs: ['c'] },
      ],
    });
    const error = await loadOnnx(context, model).catch((reason) => reason);
    expect(error.name).toBe('NotSupportedError');
    expect(error.nodes).toEqual([
      { name: 'first', operator: 'StringNormalizer', domain: 'ai.onnx', version: 17, reason: 'strings are not supported' },
      { name: 'second', operator: 'ImageDecoder', domain: 'ai.onnx', version: 17, reason: 'the operator is not supported' },
    ]);
    expect(error.message).toContain("node 'second': ImageDecoder of ai.onnx version 17");
  });

  test('refuses what is no context, no source, and a context that is lost', async () => {
    await expect(loadOnnx({}, small())).rejects.toThrow(TypeError);
    await expect(loadOnnx(context, 5)).rejects.toThrow(TypeError);
    await expect(loadOnnx(context, '')).rejects.toThrow(TypeError);
    await expect(loadOnnx(context, path.join(folder, 'missing.onnx'))).rejects.toThrow('cannot be read');
    await expect(loadOnnx(context, folder)).rejects.toThrow('not a regular file');
    const other = await ml.createContext({ accelerated: false });
    const pending = loadOnnx(other, small());
    other.destroy();
    await expect(pending).rejects.toMatchObject({ name: 'InvalidStateError' });
    await expect(loadOnnx(other, small())).rejects.toMatchObject({ name: 'InvalidStateError' });
  });

  test('gives back the memory of what is destroyed', async () => {
    const own = await ml.createContext({ accelerated: false });
    const model = await loadOnnx(own, small());
    await runArrays(model, { x: six });
    model.destroy();
    model.destroy();
    await expect(runArrays(model, { x: six })).rejects.toMatchObject({ name: 'InvalidStateError' });
    // What a read sees comes after the destruction.
    const probe = await own.createTensor({ dataType: 'float32', shape: [1], readable: true });
    await own.readTensor(probe);
    probe.destroy();
    await (await own.createTensor({ dataType: 'float32', shape: [1] })).destroy();
    expect(own.memoryUsage().graphs).toBe(0);
    own.destroy();
  });
});

describe('run()', () => {
  let model;
  beforeAll(async () => {
    model = await loadOnnx(context, small());
  });
  afterAll(() => model.destroy());

  test.each([
    ['a missing input', {}],
    ['an unknown input', { x: six, w: six }],
    ['another type', { x: Float64Array.from(six) }],
    ['an array of numbers', { x: [...six] }],
    ['too few elements', { x: six.subarray(1) }],
    ['a buffer', { x: six.buffer }],
    ['no record', undefined],
  ])('refuses %s', async (_, inputs) => {
    await expect(runArrays(model, inputs)).rejects.toThrow(TypeError);
  });

  describe('of what is declared as a scalar', () => {
    const given = (s, shape) => ({ x: { data: six, shape: [2, 3] }, s: { data: Float32Array.of(...s), shape } });
    const scalar = (rows, steps = {}) =>
      writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: [rows, 3] }, { name: 's', type: 'float', shape: [] }],
        outputs: [{ name: 'y' }, { name: 't' }],
        nodes: [{ op: 'Add', inputs: ['x', 's'], outputs: ['y'] }, { op: 'Identity', inputs: ['s'], outputs: ['t'] }],
        ...steps,
      });

    test.each(['n', 2])('takes shapes of ones, and no others; rows %s', async (rows) => {
      const own = await loadOnnx(context, scalar(rows));
      for (const shape of [[], [1], [1, 1]]) {
        await own.prepare([{ x: [2, 3], s: shape }]);
        const { y, t } = await own.run(given([10], shape));
        expect([[...y.data], t.shape]).toEqual([[10, 11, 12, 13, 14, 15], []]);
      }
      await expect(own.run(given([1, 2, 3], [3]))).rejects.toThrow("inputs: 's': found the shape [3], allowed []");
      await expect(own.run(given([], [0]))).rejects.toThrow(TypeError);
      await expect(own.run(given([], [1, 0]))).rejects.toThrow(TypeError);
      await expect(own.run(given([1, 2], [1]))).rejects.toThrow('found 2 elements, allowed 1');
      await expect(own.prepare([{ x: [2, 3], s: [2] }])).rejects.toThrow(TypeError);
      const bindings = await own.createBindings(rows === 'n' ? { inputs: given([10], [1]) } : undefined);
      if (rows === 2) bindings.write('x', six);
      bindings.write('s', { data: Float32Array.of(20), shape: [1, 1] });
      bindings.dispatch();
      expect([...(await bindings.read('y')).data]).toEqual([20, 21, 22, 23, 24, 25]);
      bindings.destroy();
      own.destroy();
    });

    test('so do the tensors of a sequence', async () => {
      const bytes = writeModel({
        opset: 17,
        inputs: [{ name: 'list', type: 'float', shape: [], sequence: true }],
        outputs: [{ name: 'y', type: 'float', shape: ['n'] }],
        nodes: [{ op: 'ConcatFromSequence', inputs: ['list'], outputs: ['y'], attributes: { axis: 0, new_axis: 1 } }],
      });
      const own = await loadOnnx(context, bytes);
      const list = [[], [1], [1, 1]].map((shape, i) => ({ data: Float32Array.of(i), shape }));
      expect([...(await own.run({ list })).y.data]).toEqual([0, 1, 2]);
      await expect(own.run({ list: [{ data: new Float32Array(2), shape: [2] }] })).rejects.toThrow(TypeError);
      own.destroy();
    });
  });

  test('refuses shapes whose sizes multiply to more than can be counted, also where nothing is in them', async () => {
    const own = await loadOnnx(
      context,
      writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: ['a', 'b', 'c', 'd', 'e'] }],
        outputs: [{ name: 'y' }],
        nodes: [{ op: 'Flatten', inputs: ['x'], outputs: ['f'], attributes: { axis: 1 } }, { op: 'ReduceSum', inputs: ['f'], outputs: ['y'] }],
      }),
    );
    const run = (shape) => own.run({ x: { data: new Float32Array(0), shape } });
    expect([...(await run([0, 2, 3, 4, 5])).y.data]).toEqual([0]);
    for (const shape of [[0, 65536, 65536, 1, 1], [0, 65536, 65536, 65536, 65536], [65536, 65536, 65536, 65536, 0], [0, 4294967295, 4294967295, 1, 1]]) {
      await expect(run(shape)).rejects.toThrow(/allowed at most \d+ elements, not counting dimensions of 0/);
    }
    own.destroy();
    // What is made of nothing is held against the limit of the model.
    const last = await loadOnnx(
      context,
      writeModel({
        opset: 18,
        inputs: [{ name: 'x', type: 'float', shape: ['a', 'b', 'c'] }],
        outputs: [{ name: 'y' }],
        initializers: [tensor('axes', 'int64', [1], BigInt64Array.of(-1n))],
        nodes: [{ op: 'ReduceSum', inputs: ['x', 'axes'], outputs: ['y'], attributes: { keepdims: 0 } }],
      }),
    );
    const { y } = await last.run({ x: { data: new Float32Array(0), shape: [2, 3, 0] } });
    expect([y.shape, [...y.data]]).toEqual([[2, 3], [0, 0, 0, 0, 0, 0]]);
    await expect(last.run({ x: { data: new Float32Array(0), shape: [32768, 65535, 0] } })).rejects.toThrow(/allowed/);
    last.destroy();
  });

  test('keeps several runs in flight apart', async () => {
    const inputs = Array.from({ length: 20 }, (_, i) => six.map((x) => x + i));
    const results = await Promise.all(inputs.map((x) => runArrays(model, { x })));
    results.forEach(({ y }, i) => expect(y).toEqual(inputs[i].map((x) => x + 1)));
  });

  test('copies its inputs at the call', async () => {
    const x = six.slice();
    for (let i = 0; i < 3; i++) {
      const pending = [runArrays(model, { x }), runArrays(model, { x })];
      x.fill(100);
      for (const { y } of await Promise.all(pending)) expect(y).toEqual(six.map((value) => value + 1));
      x.set(six);
    }
  });
});

describe('large arrays', () => {
  const count = 3 << 18;
  const ramp = (first) => Float32Array.from({ length: count }, (_, i) => first + (i % 1000));
  const isRamp = (array, first, factor) => array.length === count && array.every((value, i) => value === factor * (first + (i % 1000)));

  test('are copied at the call, and results are whole and nobody else\'s', async () => {
    const model = await loadOnnx(context, small(count / 3));
    const kept = [];
    for (let i = 0; i < 6; i++) {
      const x = ramp(i);
      const pending = i % 2 ? [runArrays(model, { x })] : [runArrays(model, { x }), runArrays(model, { x })];
      x.fill(NaN);
      kept.push(...(await Promise.all(pending)).map((results) => ({ i, results })));
      // Memory for the next results is got ready meanwhile.
      for (let round = 0; round < 4 * i; round++) await nextRound();
    }
    for (const { i, results } of kept) {
      expect(isRamp(results.y, i + 1, 1)).toBe(true);
      expect(isRamp(results.z, i + 1, 2)).toBe(true);
    }
    model.destroy();
  });

  test('that are joined with others are copied into the result', async () => {
    // A cache of keys grows by what the step makes; one of values is joined with itself, and one is read otherwise too.
    const [heads, before, size] = [3, 1500, 16];
    const shape = (length) => [1, heads, length, size];
    const concat = (inputs, output) => ({ op: 'Concat', inputs, outputs: [output], attributes: { axis: 2 } });
    const bytes = writeModel({
      opset: 17,
      inputs: [
        { name: 'x', type: 'float', shape: shape(1) },
        ...['keys', 'twice', 'read'].map((name) => ({ name, type: 'float', shape: shape(before) })),
        { name: 'ids', type: 'int64', shape: [2, 40000] },
        { name: 'more', type: 'int64', shape: [2, 1] },
      ],
      outputs: ['new_keys', 'new_twice', 'new_read', 'sum', 'new_ids'].map((name) => ({ name })),
      nodes: [
        { op: 'Neg', inputs: ['x'], outputs: ['key'] },
        concat(['keys', 'key'], 'new_keys'),
        concat(['twice', 'key', 'twice'], 'new_twice'),
        concat(['key', 'read'], 'new_read'),
        { op: 'Add', inputs: ['new_keys', 'new_read'], outputs: ['both'] },
        { op: 'Add', inputs: ['read', 'x'], outputs: ['shifted'] },
        { op: 'Concat', inputs: ['both', 'shifted'], outputs: ['sum'], attributes: { axis: 2 } },
        { op: 'Concat', inputs: ['more', 'ids'], outputs: ['new_ids'], attributes: { axis: 1 } },
      ],
    });
    const join = (...parts) =>
      Float32Array.from({ length: heads }, (_, head) => head).reduce((all, head) => {
        for (const part of parts) all.push(...part.subarray((head * part.length) / heads, ((head + 1) * part.length) / heads));
        return all;
      }, []);
    for (const numThreads of [1, 2]) {
      const own = await ml.createContext({ accelerated: false, numThreads });
      const model = await loadOnnx(own, bytes);
      for (let run = 0; run < 4; run++) {
        const random = generator(run);
        const numbers = (length) => Float32Array.from({ length: heads * length * size }, () => Math.round(random() * 1000));
        const [x, keys, twice, read] = [numbers(1), numbers(before), numbers(before), numbers(before)];
        const ids = BigInt64Array.from({ length: 80000 }, (_, i) => BigInt(i * run));
        const more = BigInt64Array.of(-1n, -2n);
        const [of, ofIds] = [[x, keys, twice, read].map((array) => array.slice()), ids.slice()];
        const pending = runArrays(model, { x, keys, twice, read, ids, more });
        for (const array of [x, keys, twice, read]) array.fill(NaN);
        ids.fill(7n);
        const results = await pending;
        const key = of[0].map((x) => -x);
        const same = (name, expected) => expect([name, Buffer.compare(Buffer.from(results[name].buffer), Buffer.from(Float32Array.from(expected).buffer))]).toEqual([name, 0]);
        same('new_keys', join(of[1], key));
        same('new_twice', join(of[2], key, of[2]));
        same('new_read', join(key, of[3]));
        const both = results.new_keys.map((number, i) => number + results.new_read[i]);
        const shifted = of[3].map((number, i) => number + of[0][Math.floor(i / (before * size)) * size + (i % size)]);
        same('sum', join(both, shifted));
        expect(results.new_ids.subarray(0, 2)).toEqual(BigInt64Array.of(-1n, ofIds[0]));
        expect(results.new_ids.subarray(40001)).toEqual(BigInt64Array.of(-2n, ...ofIds.subarray(40000)));
        expect(results.new_ids.subarray(1, 40001)).toEqual(ofIds.subarray(0, 40000));
        // In tensors nothing lies there beforehand.
        if (run === 0) {
          const bindings = await model.createBindings();
          const inputs = { x: of[0], keys: of[1], twice: of[2], read: of[3], ids: ofIds, more };
          for (const [name, array] of Object.entries(inputs)) bindings.write(name, array);
          bindings.dispatch();
          for (const name of ['new_keys', 'new_read', 'new_ids']) {
            expect((await readArray(bindings, name)).every((number, i) => number === results[name][i])).toBe(true);
          }
        }
      }
      own.destroy();
    }
  });

  /** A graph with outputs of so many bytes. */
  const withOutputs = (lengths, leavesCore = true) => ({
    context: { leavesCore },
    outputs: new Map(lengths.map((byteLength, position) => [`${position}`, { position, byteLength }])),
  });

  test('memory for the next results is got ready until it is taken', async () => {
    for (const [rounds, leavesCore] of [[0, true], [1, true], [5, true], [100, true], [100, false]]) {
      const prefetch = new OutputPrefetch();
      const graph = withOutputs([4 * count, 8, 8], leavesCore);
      const immediates = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Immediate').length;
      // Who has run once need not come again.
      prefetch.prepare(graph);
      expect(prefetch.bytes).toBe(0);
      const before = immediates();
      prefetch.prepare(graph);
      expect(prefetch.bytes).toBe(4 * count + 16);
      // Its pages are used for the first time where that is nobody else's time.
      expect(immediates() - before).toBe(leavesCore ? 1 : 0);
      for (let round = 0; round < rounds; round++) await nextRound();
      const taken = prefetch.take(graph, 'test').map((buffer) => new Uint8Array(buffer));
      expect(prefetch.bytes).toBe(0);
      expect(taken.map(({ length }) => length)).toEqual([4 * count, 8, 8]);
      expect(taken[1].buffer).not.toBe(taken[2].buffer);
      // Where all cores compute it is not even zeroed.
      if (leavesCore) for (const bytes of taken) expect(bytes.every((byte) => byte === 0)).toBe(true);
      taken.forEach((bytes) => bytes.fill(1));
      for (let round = 0; round < 50; round++) await nextRound();
      for (const bytes of taken) expect(bytes.every((byte) => byte === 1)).toBe(true);
    }
  });

  test('plans of a model share the memory for results, which is bounded', () => {
    const prefetch = new OutputPrefetch();
    // Each of another length, as where a past grows: nothing is got ready for what does not come again.
    for (let i = 1; i < 500; i++) prefetch.prepare(withOutputs([i * 4096]));
    expect(prefetch.bytes).toBe(0);
    // Those that run in turn find theirs, and one takes what another has left of its length.
    const [a, b, c] = [withOutputs([4096, 64]), withOutputs([8192, 64]), withOutputs([64, 64])];
    for (const graph of [a, b, a, b]) prefetch.prepare(graph);
    expect(prefetch.bytes).toBe(4096 + 8192 + 64);
    prefetch.take(c, 'test');
    expect(prefetch.bytes).toBe(4096 + 8192);
    // All together are bounded, and what was wanted longest ago goes first.
    const large = Array.from({ length: 4 }, (_, i) => withOutputs([MOST / 2 - 4096 * i]));
    for (const graph of [...large, ...large]) prefetch.prepare(graph);
    expect(prefetch.bytes).toBeLessThanOrEqual(MOST);
    expect(prefetch.bytes).toBe(MOST - 4096 * 5);
    prefetch.forget();
    expect(prefetch.bytes).toBe(0);
  });
});

test('run() holds no memory on the CPU, and its results are nobody else\'s', async () => {
  const own = await ml.createContext({ accelerated: false });
  const model = await loadOnnx(own, small());
  const first = await runArrays(model, { x: six });
  const second = await runArrays(model, { x: six });
  first.y.fill(0);
  expect(second.y).toEqual(six.map((value) => value + 1));
  expect(own.memoryUsage().tensors).toBe(0);
  const pending = runArrays(model, { x: six });
  own.destroy();
  await expect(pending).rejects.toMatchObject({ name: 'InvalidStateError', message: expect.stringContaining('run') });
  await expect(runArrays(model, { x: six })).rejects.toMatchObject({ name: 'InvalidStateError' });
});

describe('destroy()', () => {
  test('lets runs in flight complete, those too that still make their tensors', async () => {
    const model = await loadOnnx(context, small());
    await runArrays(model, { x: six });
    const pending = [1, 2, 3].map(() => runArrays(model, { x: six }));
    model.destroy();
    model.destroy();
    for (const { y } of await Promise.all(pending)) expect(y).toEqual(six.map((x) => x + 1));
    await expect(runArrays(model, { x: six })).rejects.toThrow('destroyed');
    await expect(model.createBindings()).rejects.toThrow('destroyed');
    expect(() => context.dispatch(model.graph, {}, {})).toThrow();
  });

  test('ends what bindings can do, and they can still be read and destroyed', async () => {
    const model = await loadOnnx(context, small());
    const bindings = await model.createBindings();
    bindings.write('x', six);
    bindings.dispatch();
    model.destroy();
    expect(await readArray(bindings, 'y')).toEqual(six.map((x) => x + 1));
    expect(() => bindings.dispatch()).toThrow();
    bindings.destroy();
  });

  test('of the context fails the runs', async () => {
    const own = await ml.createContext({ accelerated: false });
    const model = await loadOnnx(own, small());
    const pending = runArrays(model, { x: six });
    own.destroy();
    await expect(pending).rejects.toThrow();
    await expect(runArrays(model, { x: six })).rejects.toThrow();
    model.destroy();
    await expect(loadOnnx(own, small())).rejects.toThrow('destroyed');
  });
});

test('a value that is quantized and dequantized is rounded to steps', async () => {
  const [scale, point] = [0.037, 100];
  const model = await loadOnnx(
    context,
    writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [2000] }],
      outputs: [{ name: 'y' }, { name: 'q' }],
      initializers: [tensor('s', 'float', [], Float32Array.of(scale)), tensor('z', 'uint8', [], Uint8Array.of(point))],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['r'] },
        { op: 'QuantizeLinear', inputs: ['r', 's', 'z'], outputs: ['q'] },
        { op: 'DequantizeLinear', inputs: ['q', 's', 'z'], outputs: ['d'] },
        { op: 'Neg', inputs: ['d'], outputs: ['y'] },
      ],
    }),
  );
  const x = Float32Array.from({ length: 2000 }, (_, i) => (i - 500) * 0.0073);
  const { y, q } = await runArrays(model, { x });
  const step = Math.fround(scale);
  expect(y.map((value) => value + 0)).toEqual(Float32Array.from(q, (value) => -Math.fround((value - point) * step) + 0));
  expect(new Set(q).size).toBeGreaterThan(100);
  model.destroy();
});

test('inputs can be given when a model is loaded', async () => {
  const model = await loadOnnx(context, small(), { constants: { x: six } });
  expect(model.inputs).toEqual([]);
  expect((await runArrays(model, {})).y).toEqual(six.map((x) => x + 1));
  model.destroy();
  for (const constants of [{ x: new Float64Array(6) }, { x: six.subarray(1) }, { w: six }, { x: [...six] }, { x: 1 }, null]) {
    await expect(loadOnnx(context, small(), { constants })).rejects.toThrow(TypeError);
  }
});

describe('createBindings()', () => {
  test('keeps a state on the device', async () => {
    const model = await loadOnnx(context, small());
    const bindings = await model.createBindings();
    bindings.write('x', six);
    for (let i = 0; i < 10; i++) {
      bindings.dispatch();
      bindings.swap('x', 'y');
    }
    bindings.swap('x', 'y');
    expect(await readArray(bindings, 'y')).toEqual(six.map((x) => x + 10));
    expect(() => bindings.write('y', six)).toThrow(TypeError);
    expect(() => bindings.swap('x', 'x')).toThrow(TypeError);
    bindings.destroy();
    bindings.destroy();
    expect(() => bindings.dispatch()).toThrow();
    model.destroy();
  });

  test('uses the tensors that are given', async () => {
    const model = await loadOnnx(context, small());
    const x = await context.createTensor({ dataType: 'float32', shape: [2, 3], writable: true });
    const bindings = await model.createBindings({ inputs: { x } });
    expect(bindings.inputs.x).toBe(x);
    expect(bindings.outputs.y).toBeInstanceOf(MLTensor);
    const wrong = await context.createTensor({ dataType: 'float32', shape: [3, 2] });
    await expect(model.createBindings({ inputs: { x: wrong } })).rejects.toThrow(TypeError);
    await expect(model.createBindings({ inputs: { x: {} } })).rejects.toThrow(TypeError);
    await expect(model.createBindings({ outputs: { w: wrong } })).rejects.toThrow(TypeError);
    bindings.destroy();
    // It was given, so it is still there.
    context.writeTensor(x, six);
    model.destroy();
  });
});

describe('external data', () => {
  /** y = x + w, with w in a file. */
  function external(location, extra = []) {
    const externalData = [{ key: 'location', value: location }, ...extra];
    return writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [2] }],
      outputs: [{ name: 'y' }],
      initializers: [{ name: 'w', dims: [2], dataType: 1, dataLocation: 1, externalData }],
      nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
    });
  }

  const at = (offset) => [{ key: 'offset', value: String(offset) }, { key: 'length', value: '8' }];

  test('is read from the model’s folder, and from nowhere else', async () => {
    const inner = path.join(folder, 'inner');
    mkdirSync(inner);
    const weights = Buffer.from(Float32Array.of(9, 9, 10, 20).buffer);
    writeFileSync(path.join(inner, 'weights'), weights);
    writeFileSync(path.join(folder, 'secret'), weights);
    symlinkSync(path.join(folder, 'secret'), path.join(inner, 'link'));
    const load = async (location, extra) => {
      writeFileSync(path.join(inner, 'model.onnx'), external(location, extra));
      const model = await loadOnnx(context, path.join(inner, 'model.onnx'));
      const { y } = await runArrays(model, { x: Float32Array.of(1, 2) });
      model.destroy();
      return y;
    };
    expect(await load('weights', at(8))).toEqual(Float32Array.of(11, 22));
    for (const location of ['../secret', path.join(folder, 'secret'), 'link', 'missing', '.', '']) {
      await expect(load(location, at(0))).rejects.toThrow();
    }
    for (const offset of [9, 1e18, -1, 'x']) await expect(load('weights', at(offset))).rejects.toThrow();
    await expect(load('weights', [{ key: 'length', value: '4' }])).rejects.toThrow();
    await expect(loadOnnx(context, external('weights', at(8)))).rejects.toThrow('by its path');
  });

  test('may be larger than 2 GiB', async () => {
    const [rows, columns] = [600_000, 1000];
    truncateSync(writeEmpty(path.join(folder, 'large.data')), rows * columns * 4);
    const externalData = [{ key: 'location', value: 'large.data' }];
    const file = path.join(folder, 'large.onnx');
    writeFileSync(
      file,
      writeModel({
        opset: 17,
        inputs: [{ name: 'row', type: 'int64', shape: [1] }],
        outputs: [{ name: 'y' }],
        initializers: [{ name: 'table', dims: [rows, columns], dataType: 1, dataLocation: 1, externalData }],
        nodes: [{ op: 'Gather', inputs: ['table', 'row'], outputs: ['y'] }],
      }),
    );
    const before = process.memoryUsage.rss();
    const model = await loadOnnx(context, file);
    const { y } = await runArrays(model, { row: BigInt64Array.of(BigInt(rows - 1)) });
    expect(y).toEqual(new Float32Array(columns));
    // The pages that nobody needs were never read. What the process had before says nothing about that.
    expect(process.memoryUsage.rss() - before).toBeLessThan(rows * columns * 2);
    model.destroy();
  });

  function writeEmpty(file) {
    writeFileSync(file, '');
    return file;
  }
});

describe('malformed files', () => {
  test('give an error and nothing else', async () => {
    const random = generator(7);
    const bytes = small();
    const broken = [new Uint8Array(0), Uint8Array.of(0xff), Buffer.from('not a model at all')];
    for (let i = 0; i < 40; i++) broken.push(bytes.subarray(0, Math.floor(random() * bytes.length)));
    for (let i = 0; i < 40; i++) broken.push(Uint8Array.from({ length: 100 }, () => Math.floor(random() * 256)));
    for (const file of broken) await expect(loadOnnx(context, file)).rejects.toThrow();
    for (let i = 0; i < 200; i++) {
      const changed = bytes.slice();
      changed[Math.floor(random() * changed.length)] ^= 1 << Math.floor(random() * 8);
      // It may still be a model.
      const model = await loadOnnx(context, changed).catch((error) => error);
      if (model instanceof OnnxModel) model.destroy();
      else expect(model).toBeInstanceOf(Error);
    }
  });
});

test('inspectOnnx() tells what a model holds', async () => {
  expect(await inspectOnnx(small('batch'))).toEqual({
    producer: '',
    irVersion: 8,
    opsets: { 'ai.onnx': 17 },
    operators: [
      { domain: 'ai.onnx', operator: 'Add', count: 1 },
      { domain: 'ai.onnx', operator: 'Mul', count: 1 },
    ],
    parameters: 2,
    parameterBytes: 8,
    inputs: [{ name: 'x', dataType: 'float32', shape: ['batch', '3'] }],
    outputs: expect.anything(),
    unsupported: [],
  });
});
