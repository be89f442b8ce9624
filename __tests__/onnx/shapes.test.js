'use strict';

// Models with open dimensions.

const { MLTensor, ml } = require('webnn-node');
const { OnnxTensor, loadOnnx } = require('webnn-node/onnx');
const { generator, seed } = require('./random.js');
const { withContexts } = require('./contexts.js');
const { floats, longs, tensor, writeModel } = require('./write.js');

let context;
let gpu;
withContexts((cpu, other) => {
  [context, gpu] = [cpu, other];
});

/** Plans that are kept of a model (src/program/plan_cache.rs). */
const MOST = 512;

/** y = x w + b for x of [batch, sequence, 2], and z, the same summed over the sequence, times a mask of [batch]. */
const projection = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['batch', 'sequence', 2] }, { name: 'mask', type: 'float', shape: ['batch'] }],
    outputs: [{ name: 'y', type: 'float', shape: ['batch', 'sequence', 3] }, { name: 'z', type: 'float', shape: ['batch', 3] }],
    initializers: [
      tensor('w', 'float', [2, 3], floats(1, 2, 3, 4, 5, 6)),
      tensor('b', 'float', [3], floats(0.5, 0, -0.5)),
      tensor('axes', 'int64', [1], longs(1)),
      tensor('last', 'int64', [1], longs(-1)),
    ],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['p'] },
      { op: 'Add', inputs: ['p', 'b'], outputs: ['y'] },
      { op: 'ReduceSum', inputs: ['y', 'axes'], outputs: ['s'], attributes: { keepdims: 0 } },
      { op: 'Unsqueeze', inputs: ['mask', 'last'], outputs: ['m'] },
      { op: 'Mul', inputs: ['s', 'm'], outputs: ['z'] },
    ],
  });

function expected(x, mask, batch, sequence) {
  const w = [[1, 2, 3], [4, 5, 6]];
  const b = [0.5, 0, -0.5];
  const y = [];
  const z = new Array(batch * 3).fill(0);
  for (let i = 0; i < batch * sequence; i++) {
    for (let k = 0; k < 3; k++) {
      y.push(x[2 * i] * w[0][k] + x[2 * i + 1] * w[1][k] + b[k]);
      z[Math.floor(i / sequence) * 3 + k] += y.at(-1);
    }
  }
  return { y, z: z.map((value, i) => value * mask[Math.floor(i / 3)]) };
}

const drawn = (random, count) => Float32Array.from({ length: count }, () => Math.round(random() * 16) / 4);

async function checkProjection(model, random, batch, sequence) {
  const [x, mask] = [drawn(random, batch * sequence * 2), drawn(random, batch)];
  const { y, z } = await model.run({ x: { data: x, shape: [batch, sequence, 2] }, mask });
  const exact = expected(x, mask, batch, sequence);
  expect([y.shape, z.shape]).toEqual([[batch, sequence, 3], [batch, 3]]);
  // Quarters of small numbers: all sums are exact.
  expect([[...y.data], [...z.data]]).toEqual([exact.y, exact.z]);
}

describe('open dimensions', () => {
  test('need not be fixed, and are shown by their names', async () => {
    const model = await loadOnnx(context, projection());
    expect(model.inputs).toEqual([
      { name: 'x', type: 'float32', dataType: 'float32', shape: ['batch', 'sequence', 2] },
      { name: 'mask', type: 'float32', dataType: 'float32', shape: ['batch'] },
    ]);
    expect(model.outputs.map(({ shape }) => shape)).toEqual([['batch', 'sequence', 3], ['batch', 3]]);
    expect(model.graph).toBeUndefined();
    const random = generator(1);
    for (const [batch, sequence] of [[1, 1], [2, 5], [1, 17], [2, 5], [3, 1]]) await checkProjection(model, random, batch, sequence);
    if (gpu !== undefined) {
      const onGpu = await loadOnnx(gpu, projection());
      for (const [batch, sequence] of [[1, 3], [2, 5]]) await checkProjection(onGpu, random, batch, sequence);
      onGpu.destroy();
    }
    model.destroy();
  });

  test('some can be fixed', async () => {
    const model = await loadOnnx(context, projection(), { freeDimensions: { batch: 2 } });
    expect(model.inputs.map(({ shape }) => shape)).toEqual([[2, 'sequence', 2], [2]]);
    expect(model.outputs.map(({ shape }) => shape)).toEqual([[2, 'sequence', 3], [2, 3]]);
    const { z } = await model.run({ x: new Float32Array(12), mask: floats(1, 2) });
    expect(z).toMatchObject({ dataType: 'float32', type: 'float32', shape: [2, 3], dims: [2, 3] });
    expect(z).toBeInstanceOf(OnnxTensor);
    model.destroy();
    const whole = await loadOnnx(context, projection(), { freeDimensions: { batch: 1, sequence: 1 } });
    expect(whole.graph).toBeDefined();
    expect(whole.outputs.map(({ shape }) => shape)).toEqual([[1, 1, 3], [1, 3]]);
    whole.destroy();
  });

  test('runs of many shapes in flight at once', async () => {
    const model = await loadOnnx(context, projection());
    const random = generator(2);
    const shapes = Array.from({ length: 60 }, () => [1 + Math.floor(random() * 3), 1 + Math.floor(random() * 6)]);
    try {
      await Promise.all(shapes.map(([batch, sequence]) => checkProjection(model, random, batch, sequence)));
    } catch (error) {
      throw new Error(`WEBNN_SEED=${seed}`, { cause: error });
    }
    model.destroy();
  });

  test('more shapes than plans are kept', async () => {
    const model = await loadOnnx(context, projection());
    const random = generator(3);
    const checks = [];
    for (let sequence = 1; sequence <= MOST + 20; sequence += 1) {
      checks.push(checkProjection(model, random, 1, sequence));
      if (checks.length === 40) await Promise.all(checks.splice(0));
    }
    await Promise.all(checks);
    await checkProjection(model, random, 1, 1);
    model.destroy();
  }, 120_000);

  test('prepare() makes plans ahead', async () => {
    const model = await loadOnnx(context, projection());
    await model.prepare([{ x: [1, 4, 2] }, { x: [2, 4, 2], mask: [2] }]);
    await checkProjection(model, generator(4), 2, 4);
    await expect(model.prepare([{ mask: [2] }])).rejects.toThrow(/'x': found no shape, allowed one like \[batch, sequence, 2\]/);
    await expect(model.prepare([{ x: [1, 4, 2], w: [1] }])).rejects.toThrow(/found 'w', allowed 'x', 'mask'/);
    await expect(model.prepare([{ x: [1, 4, 2], mask: [3] }])).rejects.toThrow(/found 3 for the dimension 'batch'.*allowed 1, which 'x' has/);
    model.destroy();
  });

  test('wrong shapes are named with what is allowed', async () => {
    const model = await loadOnnx(context, projection(), { label: 'm' });
    const mask = floats(1, 1);
    const x = (shape) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });
    const cases = [
      [{ x: x([2, 5, 3]), mask }, /^run \[m\]: inputs: 'x': found the shape \[2, 5, 3\], allowed \[batch, sequence, 2\]$/],
      [{ x: x([2, 5]), mask }, /found the shape \[2, 5\]/],
      [{ x: x([3, 5, 2]), mask }, /^run \[m\]: inputs: 'mask': found 2 elements, allowed 3 for the shape \[3\], since 'batch' is 3 in 'x'$/],
      [{ x: x([3, 5, 2]), mask: x([2]) }, /'mask': found 2 for the dimension 'batch', in the shape \[2\], allowed 3, which 'x' has/],
      [{ x: { data: new Float32Array(3), shape: [1, 2, 2] }, mask }, /'x': found 3 elements, allowed 4 for the shape \[1, 2, 2\]/],
      [{ x: { data: new Float32Array(4), shape: [1, -2, 2] }, mask }, /'x': shape: found .*, allowed an array of sizes/],
      [{ x: { data: new Int32Array(4), shape: [1, 2, 2] }, mask }, /'x': found an Int32Array, allowed a Float32Array for float32/],
      [{ x: { data: new Float32Array(4), shape: [1, 2, 2], dataType: 'float16' }, mask: floats(1) }, /'x': found 'float16', allowed 'float32'/],
      [{ x: new Float32Array(4), mask: 5 }, /'mask': found 5, allowed a Float32Array/],
      [{ x: { data: new Float32Array(4), shape: [1, -2, 2] }, mask }, /'x': shape: found \[1, -2, 2\], allowed an array of sizes/],
      [{ x: { shape: [1, 2, 2] }, mask }, /'x': found an object, allowed a typed array or \{ data, shape \}/],
      [{ x: new Float32Array(4) }, /found 'x', allowed exactly the model's inputs 'x', 'mask'/],
    ];
    for (const [inputs, message] of cases) {
      await expect(model.run(inputs)).rejects.toThrow(TypeError);
      await expect(model.run(inputs)).rejects.toThrow(message);
    }
    model.destroy();
  });

  test('arrays without a shape have the only one that is possible', async () => {
    const model = await loadOnnx(context, projection());
    // The batch is that of the mask, and what is left is the sequence.
    const { y } = await model.run({ x: new Float32Array(12), mask: floats(1, 1) });
    expect(y.shape).toEqual([2, 3, 3]);
    await expect(model.run({ x: new Float32Array(10), mask: floats(1, 1) })).rejects.toThrow(/'x': found 10 elements, allowed 12/);
    const two = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: ['a', 'b'] }],
      outputs: [{ name: 'y' }],
      nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
    });
    const open = await loadOnnx(context, two);
    await expect(open.run({ x: new Float32Array(6) })).rejects.toThrow(/'x': found 6 elements, which several shapes \[a, b\] have, allowed \{ data, shape \}/);
    open.destroy();
    model.destroy();
  });

  test('sizes of 0', async () => {
    const model = await loadOnnx(context, projection());
    const { y, z } = await model.run({ x: { data: new Float32Array(0), shape: [0, 4, 2] }, mask: new Float32Array(0) });
    expect([y.shape, z.shape, y.data.length]).toEqual([[0, 4, 3], [0, 3], 0]);
    // A sum of nothing is 0.
    const none = await model.run({ x: { data: new Float32Array(0), shape: [2, 0, 2] }, mask: floats(1, 1) });
    expect([none.y.shape, [...none.z.data]]).toEqual([[2, 0, 3], [0, 0, 0, 0, 0, 0]]);
    model.destroy();
  });

  test('the outputs that are wanted, in arrays of the caller', async () => {
    for (const each of [context, gpu].filter(Boolean)) {
      const model = await loadOnnx(each, projection());
      const inputs = { x: floats(1, 2, 3, 4), mask: floats(2) };
      expect(Object.keys(await model.run(inputs, { outputs: ['z'] }))).toEqual(['z']);
      const into = new Float32Array(3);
      const { z, y } = await model.run(inputs, { outputs: { z: into, y: null } });
      expect(z.data).toBe(into);
      expect([...into]).toEqual([58, 76, 94]);
      expect(y.shape).toEqual([1, 2, 3]);
      await expect(model.run(inputs, { outputs: ['w'] })).rejects.toThrow(/outputs: found 'w', allowed 'y', 'z'/);
      await expect(model.run(inputs, { outputs: [] })).rejects.toThrow(/found no name/);
      await expect(model.run(inputs, { outputs: { z: new Float32Array(2) } })).rejects.toThrow(/'z': found an array of 2 elements, allowed 3/);
      await expect(model.run(inputs, { outputs: { z: new Int8Array(3) } })).rejects.toThrow(/'z': found an Int8Array/);
      model.destroy();
    }
  });

  test('inputs are copied at the call, also where a plan is made first', async () => {
    const model = await loadOnnx(context, projection());
    const [x, mask] = [floats(1, 2), floats(1)];
    const pending = model.run({ x, mask });
    x.fill(100);
    mask.fill(0);
    expect([...(await pending).z.data]).toEqual([9.5, 12, 14.5]);
    model.destroy();
  });

  /** What grows from step to step, at its beginning; at its end, as the cache of a decoder, it is appended to in place. */
  const growing = (appends = false) =>
    writeModel({
      opset: 17,
      inputs: [{ name: 'past', type: 'float', shape: [1, 'length'] }, { name: 'x', type: 'float', shape: [1, 'new'] }],
      outputs: [{ name: 'present', type: 'float', shape: [1, 'length + new'] }, { name: 'sum' }],
      nodes: [
        { op: 'Concat', inputs: appends ? ['past', 'x'] : ['x', 'past'], outputs: ['present'], attributes: { axis: 1 } },
        { op: 'ReduceSum', inputs: ['present'], outputs: ['sum'], attributes: { keepdims: 0 } },
      ],
    });

  test('bindings take other shapes from step to step, and keep them on the device', async () => {
    for (const each of [await ml.createContext({ accelerated: false }), gpu && (await ml.createContext({ deviceType: 'gpu' }))].filter(Boolean)) {
      for (const appends of [false, true]) {
        const model = await loadOnnx(each, growing(appends));
        expect(model.outputs[0].shape).toEqual([1, 'length + new']);
        const bindings = await model.createBindings();
        bindings.write('past', { data: new Float32Array(0), shape: [1, 0] });
        for (let step = 1; step <= 4; step++) {
          bindings.write('x', { data: floats(step, step), shape: [1, 2] });
          bindings.dispatch();
          bindings.swap('past', 'present');
        }
        expect([...(await bindings.read('sum')).data]).toEqual([20]);
        expect(bindings.inputs.past.shape).toEqual([1, 8]);
        if (!appends) {
          expect(bindings.inputs.past).toBeInstanceOf(MLTensor);
          // The past of now and of the step before, and the sum.
          expect(each.memoryUsage().tensors).toBeLessThanOrEqual(4 * (8 + 6 + 1) + 3 * 64);
        }
        bindings.write('x', { data: floats(1), shape: [1, 1] });
        bindings.dispatch();
        const { data, shape } = await bindings.read('present');
        expect([[...data], shape]).toEqual([appends ? [1, 1, 2, 2, 3, 3, 4, 4, 1] : [1, 4, 4, 3, 3, 2, 2, 1, 1], [1, 9]]);
        expect(bindings.outputs.present.shape).toEqual([1, 9]);
        expect(() => bindings.write('x', { data: floats(1), shape: [2, 1] })).toThrow(/found the shape \[2, 1\], allowed \[1, new\]/);
        bindings.destroy();
        if (!appends) expect(each.memoryUsage().tensors).toBe(0);
        model.destroy();
      }
      each.destroy();
    }
  });

  test('bindings of other shapes take tensors', async () => {
    const model = await loadOnnx(context, growing());
    const create = (size) => context.createTensor({ dataType: 'float32', shape: [1, size], readable: true, writable: true });
    const [past, x, present] = [await create(2), await create(1), await create(3)];
    context.writeTensor(past, floats(1, 2));
    context.writeTensor(x, floats(3));
    const bindings = await model.createBindings({ inputs: { past, x }, outputs: { present } });
    expect(bindings.inputs).toEqual({ past, x });
    bindings.dispatch();
    expect([...(await bindings.read('present')).data]).toEqual([3, 1, 2]);
    expect(bindings.outputs.present).toBe(present);
    expect([...new Float32Array(await context.readTensor(present))]).toEqual([3, 1, 2]);
    // What is written of the same shape goes to the tensor.
    bindings.write('x', { data: floats(4), shape: [1, 1] });
    bindings.dispatch();
    expect([...(await bindings.read('present')).data]).toEqual([4, 1, 2]);
    expect([...new Float32Array(await context.readTensor(x))]).toEqual([4]);
    // A result of another shape does not fit into it; the next step that does succeeds.
    bindings.write('x', { data: floats(4, 5), shape: [1, 2] });
    bindings.dispatch();
    await expect(bindings.read('present')).rejects.toThrow(TypeError);
    bindings.write('x', { data: floats(6), shape: [1, 1] });
    bindings.dispatch();
    expect([...(await bindings.read('present')).data]).toEqual([6, 1, 2]);
    bindings.swap('past', 'present');
    bindings.dispatch();
    await expect(bindings.read('sum')).rejects.toThrow(TypeError);
    bindings.destroy();
    // What was given stays.
    expect([...new Float32Array(await context.readTensor(past))]).toEqual([1, 2]);
    for (const tensor of [past, x, present]) tensor.destroy();
    const whole = await context.createTensor({ dataType: 'int32', shape: [1, 2] });
    await expect(model.createBindings({ inputs: { past: whole } })).rejects.toThrow(/'past': found 'int32', allowed 'float32'/);
    await expect(model.createBindings({ outputs: { present: whole } })).rejects.toThrow(/found an MLTensor .*int32.*, allowed float32/);
    await expect(model.createBindings({ outputs: { future: whole } })).rejects.toThrow(/found 'future', allowed 'present', 'sum'/);
    whole.destroy();
    model.destroy();
  });

  test('plans of all shapes share the weights', async () => {
    const width = 256;
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: ['n', width] }],
      outputs: [{ name: 'y' }],
      initializers: [
        tensor('w', 'float', [width, width], new Float32Array(width * width).fill(0.5)),
        // As exporters write it: one element is wanted of it, so no kernel packs it.
        tensor('table', 'float', [width, width], new Float32Array(width * width).fill(2)),
        tensor('at', 'int64', [1], longs(3)),
      ],
      nodes: [
        { op: 'MatMul', inputs: ['x', 'w'], outputs: ['p'] },
        { op: 'Gather', inputs: ['table', 'at'], outputs: ['row'], attributes: { axis: 0 } },
        { op: 'Mul', inputs: ['p', 'row'], outputs: ['y'] },
      ],
    });
    for (const each of [await ml.createContext({ accelerated: false }), gpu && (await ml.createContext({ deviceType: 'gpu' }))].filter(Boolean)) {
      const model = await loadOnnx(each, bytes);
      const run = async (n) => {
        const { y } = await model.run({ x: new Float32Array(n * width).fill(1) });
        expect(y.data.every((value) => value === width)).toBe(true);
      };
      await run(7);
      const one = each.memoryUsage().graphs;
      for (const n of [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]) await run(n);
      expect(each.memoryUsage().graphs).toBeLessThanOrEqual(1.15 * one);
      expect(one).toBeGreaterThan(width * width * 4);
      model.destroy();
      each.destroy();
    }
  });

  test('a total length that is an input tells how long the cache becomes', async () => {
    const [heads, width] = [2, 8];
    const bytes = writeModel({
      opset: 17,
      inputs: [
        ...['q', 'k', 'v'].map((name) => ({ name, type: 'float', shape: ['b', 's', heads * width] })),
        ...['past_k', 'past_v'].map((name) => ({ name, type: 'float', shape: ['b', heads, 'm', width] })),
        { name: 'last', type: 'int32', shape: ['b'] },
        { name: 'total', type: 'int32', shape: [] },
      ],
      outputs: [{ name: 'y' }, { name: 'key' }, { name: 'value' }],
      nodes: [{ op: 'GroupQueryAttention', domain: 'com.microsoft', inputs: ['q', 'k', 'v', 'past_k', 'past_v', 'last', 'total'], outputs: ['y', 'key', 'value'], attributes: { num_heads: heads, kv_num_heads: heads } }],
    });
    const model = await loadOnnx(context, bytes);
    const run = async (size, total, room) => {
      // Rows that nobody has written may hold anything.
      const cache = () => Float32Array.from({ length: heads * size * width }, (_, i) => (Math.floor(i / width) % size < total - 1 ? Math.sin(i % (size * width)) : room));
      const one = new Float32Array(heads * width).fill(0.5);
      const results = await model.run({
        q: { data: one, shape: [1, 1, heads * width] },
        k: { data: one, shape: [1, 1, heads * width] },
        v: { data: one, shape: [1, 1, heads * width] },
        past_k: { data: cache(), shape: [1, heads, size, width] },
        past_v: { data: cache(), shape: [1, heads, size, width] },
        last: { data: Int32Array.of(total - 1), shape: [1] },
        total: { data: Int32Array.of(total), shape: [] },
      });
      expect(results.key.shape).toEqual([1, heads, Math.max(size, total), width]);
      return [...results.y.data];
    };
    for (const total of [4, 5, 8]) {
      const found = await run(8, total, NaN);
      expect(found.every(Number.isFinite)).toBe(true);
      expect(found).toEqual(await run(8, total, 0));
    }
    // A cache that grows.
    expect((await run(8, 9, 0)).every(Number.isFinite)).toBe(true);
    model.destroy();
  });

  test('float16 weights are there once, wherever they lie in the file', async () => {
    const [depth, width] = [512, 256];
    const half = new Uint16Array(depth * width).fill(0x3800);
    for (const label of ['', 'a', 'an', 'and']) {
      const bytes = writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: ['n', depth] }],
        outputs: [{ name: 'y' }],
        initializers: [tensor('w', 'float16', [depth, width], half)],
        nodes: [
          { op: 'Cast', name: label, inputs: ['w'], outputs: ['wide'], attributes: { to: 1 } },
          { op: 'MatMul', inputs: ['x', 'wide'], outputs: ['y'] },
        ],
      });
      const own = await ml.createContext({ accelerated: false });
      const model = await loadOnnx(own, bytes);
      for (const n of [1, 3, 40]) {
        const { y } = await model.run({ x: new Float32Array(n * depth).fill(1) });
        expect(y.data.every((value) => value === depth / 2)).toBe(true);
      }
      // With some scales, and lines of the cache that are filled up.
      expect(own.memoryUsage().graphs).toBeLessThanOrEqual(1.1 * half.byteLength);
      model.destroy();
      own.destroy();
    }
  });

  test('plans of all sizes of images share biases and zeros', async () => {
    const channels = 512;
    const conv = (input, output, weights, group) => ({ op: 'Conv', inputs: [input, weights, 'bias'], outputs: [output], attributes: { group, pads: group > 1 ? [1, 1, 1, 1] : [0, 0, 0, 0] } });
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [1, channels, 'height', 'width'] }],
      outputs: [{ name: 'y' }],
      initializers: [
        tensor('each', 'float', [channels, 1, 3, 3], new Float32Array(channels * 9).fill(0.5)),
        tensor('all', 'float', [8, channels, 1, 1], new Float32Array(channels * 8).fill(1 / channels)),
        tensor('bias', 'float', [channels], new Float32Array(channels).fill(1)),
        tensor('few', 'float', [8], new Float32Array(8).fill(2)),
      ],
      nodes: [
        ...Array.from({ length: 12 }, (_, i) => conv(i === 0 ? 'x' : `v${i - 1}`, `v${i}`, 'each', channels)),
        { op: 'Conv', inputs: ['v11', 'all', 'few'], outputs: ['y'] },
      ],
    });
    const own = await ml.createContext({ accelerated: false });
    const model = await loadOnnx(own, bytes);
    const run = async (n) => {
      const { y } = await model.run({ x: { data: new Float32Array(channels * n * n), shape: [1, channels, n, n] } });
      expect(y.data.every(Number.isFinite)).toBe(true);
    };
    await run(8);
    const one = own.memoryUsage().graphs;
    for (const n of [1, 2, 3, 4, 5, 6, 7]) await run(n);
    expect(own.memoryUsage().graphs).toBeLessThanOrEqual(1.5 * one);
    model.destroy();
    own.destroy();
  });

  test('what is computed from weights is there once', async () => {
    const width = 256;
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'ids', type: 'int64', shape: ['n'] }],
      outputs: [{ name: 'y' }],
      initializers: [
        // Words as 8-bit integers, which no product takes: the table is dequantized when a plan is made.
        tensor('words', 'int8', [width, width], Int8Array.from({ length: width * width }, (_, i) => i % 100)),
        tensor('scale', 'float', [], floats(0.5)),
      ],
      nodes: [
        { op: 'Cast', inputs: ['words'], outputs: ['numbers'], attributes: { to: 1 } },
        { op: 'Mul', inputs: ['numbers', 'scale'], outputs: ['table'] },
        { op: 'Gather', inputs: ['table', 'ids'], outputs: ['y'], attributes: { axis: 0 } },
      ],
    });
    for (const each of [await ml.createContext({ accelerated: false }), gpu && (await ml.createContext({ deviceType: 'gpu' }))].filter(Boolean)) {
      const model = await loadOnnx(each, bytes);
      const run = async (n) => {
        const { y } = await model.run({ ids: new BigInt64Array(n).fill(3n) });
        expect([...y.data.subarray(0, 3)]).toEqual([0, 1, 2].map((i) => ((3 * width + i) % 100) / 2));
      };
      await run(7);
      const one = each.memoryUsage().graphs;
      for (const n of [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]) await run(n);
      expect(each.memoryUsage().graphs).toBeLessThanOrEqual(1.15 * one);
      expect(one).toBeGreaterThanOrEqual(width * width * 4);
      model.destroy();
      each.destroy();
    }
  });

  test('filters and weights that are computed from constants are there once for all plans', async () => {
    const [channels, filters, width] = [16, 48, 40];
    const drawn = generator(5);
    const bytes = (length) => Int8Array.from({ length }, () => Math.floor(drawn() * 200) - 100);
    const filter = bytes(filters * channels * 9);
    const weights = Float32Array.from({ length: width * filters }, () => drawn());
    const model = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: [1, channels, 'h', 'w'] }],
      outputs: [{ name: 'y' }],
      initializers: [
        tensor('filter', 'int8', [filters, channels, 3, 3], filter),
        tensor('scales', 'float', [filters], new Float32Array(filters).fill(0.01)),
        tensor('zeros', 'int8', [filters], new Int8Array(filters)),
        tensor('thin', 'int8', [filters, 1, 3, 3], bytes(filters * 9)),
        tensor('weights', 'float', [width, filters], weights),
      ],
      nodes: [
        { op: 'DequantizeLinear', inputs: ['filter', 'scales', 'zeros'], outputs: ['dequantized'], attributes: { axis: 0 } },
        { op: 'Conv', inputs: ['x', 'dequantized'], outputs: ['a'] },
        { op: 'DequantizeLinear', inputs: ['thin', 'scales', 'zeros'], outputs: ['thinner'], attributes: { axis: 0 } },
        { op: 'Conv', inputs: ['a', 'thinner'], outputs: ['b'], attributes: { group: filters } },
        { op: 'ReduceMean', inputs: ['b'], outputs: ['c'], attributes: { axes: [2, 3], keepdims: 0 } },
        { op: 'Transpose', inputs: ['weights'], outputs: ['turned'], attributes: { perm: [1, 0] } },
        { op: 'MatMul', inputs: ['c', 'turned'], outputs: ['y'] },
      ],
    });
    const own = await ml.createContext({ accelerated: false });
    const loaded = await loadOnnx(own, model);
    const graphs = [];
    for (let i = 0; i < 10; i++) {
      const shape = [1, channels, 8 + i, 9 + 2 * i];
      await loaded.run({ x: { data: new Float32Array(channels * shape[2] * shape[3]), shape } });
      graphs.push(own.memoryUsage().graphs);
    }
    // What a plan has for itself, beside what is said of its steps, is less than either of the two.
    expect(graphs[9] - graphs[1]).toBeLessThan(8 * 4 * Math.min(filter.length, weights.length));
    expect(graphs[0]).toBeGreaterThan(4 * (filter.length + weights.length));
    loaded.destroy();
    own.destroy();
  });

  test('a model that is destroyed while a plan is made', async () => {
    const model = await loadOnnx(context, projection());
    const pending = model.run({ x: floats(1, 2), mask: floats(1) });
    model.destroy();
    expect([...(await pending).z.data]).toEqual([9.5, 12, 14.5]);
    await expect(model.run({ x: floats(1, 2), mask: floats(1) })).rejects.toThrow(/destroyed/);
  });
});
