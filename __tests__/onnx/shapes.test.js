'use strict';

// Models with open dimensions, and models that are cut where a value of the run decides a shape.

const { setImmediate: nextRound } = require('node:timers/promises');
const { MLContext, MLTensor, ml } = require('webnn-node');
const { OnnxTensor, loadOnnx } = require('webnn-node/onnx');
const { generator, seed } = require('./random.js');
const { withContexts } = require('./contexts.js');
const { tensor, writeModel } = require('./write.js');

let context;
let gpu;
withContexts((cpu, other) => {
  [context, gpu] = [cpu, other];
});

/** Plans that are kept of a model (src/program/cache.rs). */
const MOST = 512;

const floats = (...numbers) => Float32Array.from(numbers);
const longs = (...numbers) => BigInt64Array.from(numbers, BigInt);

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

/** present = past and x behind it; doubled = twice what of x is not 0, behind a cut; same = past. */
const found = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'past', type: 'float', shape: ['length'] }, { name: 'x', type: 'float', shape: ['new'] }],
    outputs: [{ name: 'present' }, { name: 'doubled' }, { name: 'same' }],
    initializers: [tensor('first', 'int64', [], longs(0))],
    nodes: [
      { op: 'Concat', inputs: ['past', 'x'], outputs: ['present'], attributes: { axis: 0 } },
      { op: 'NonZero', inputs: ['x'], outputs: ['places'] },
      { op: 'Gather', inputs: ['places', 'first'], outputs: ['row'], attributes: { axis: 0 } },
      { op: 'Gather', inputs: ['x', 'row'], outputs: ['some'], attributes: { axis: 0 } },
      { op: 'Add', inputs: ['some', 'some'], outputs: ['doubled'] },
      { op: 'Identity', inputs: ['past'], outputs: ['same'] },
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

  test('plans of later parts are kept with those of first ones, and go while others run', async () => {
    const model = await loadOnnx(context, found());
    const check = async (i) => {
      const [past, x] = [new Float32Array(1 + (i % 50)).fill(1), Float32Array.from({ length: 2 + Math.floor(i / 50) }, (_, at) => (at === 0 ? 0 : i + 1))];
      const results = await model.run({ past, x });
      expect([results.present.shape[0], [...results.doubled.data]]).toEqual([past.length + x.length, [...x.subarray(1)].map((each) => 2 * each)]);
    };
    // A first and a second part each: no more than half of them are kept.
    const graphs = [];
    for (let i = 0; i < 600; i += 40) {
      await Promise.all(Array.from({ length: Math.min(40, 600 - i) }, (_, at) => check(i + at)));
      graphs.push(context.memoryUsage().graphs);
    }
    for (const i of [599, 0, 300, 1]) await check(i);
    expect(Math.max(...graphs.slice(8))).toBeLessThanOrEqual(1.25 * graphs[7]);
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
      [{ x: x([3, 5, 2]), mask }, /^run \[m\]: inputs: 'mask': found 2 elements, allowed 3 for the shape \[3\]$/],
      [{ x: x([3, 5, 2]), mask: x([2]) }, /'mask': found 2 for the dimension 'batch', in the shape \[2\], allowed 3, which 'x' has/],
      [{ x: { data: new Float32Array(3), shape: [1, 2, 2] }, mask }, /'x': found 3 elements, allowed 4 for the shape \[1, 2, 2\]/],
      [{ x: { data: new Float32Array(4), shape: [1, -2, 2] }, mask }, /'x': shape: found .*, allowed an array of sizes/],
      [{ x: { data: new Int32Array(4), shape: [1, 2, 2] }, mask }, /'x': found an Int32Array, allowed a Float32Array for float32/],
      [{ x: { data: new Float32Array(4), shape: [1, 2, 2], dataType: 'float16' }, mask: floats(1) }, /'x': found 'float16', allowed 'float32'/],
      [{ x: new Float32Array(4), mask: 5 }, /'mask': found 5, allowed a Float32Array/],
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

  test('bindings of a model that is cut keep results on the device', async () => {
    for (const each of [await ml.createContext({ accelerated: false }), gpu && (await ml.createContext({ deviceType: 'gpu' }))].filter(Boolean)) {
      const model = await loadOnnx(each, found());
      const bindings = await model.createBindings({ inputs: { past: { data: floats(9), shape: [1] } } });
      const reads = jest.spyOn(MLContext.prototype, 'readTensor');
      const writes = jest.spyOn(MLContext.prototype, 'writeTensor');
      for (let step = 1; step <= 4; step++) {
        bindings.write('x', { data: floats(step, 0), shape: [2] });
        bindings.dispatch();
        bindings.swap('past', 'present');
      }
      expect([...(await bindings.read('doubled')).data]).toEqual([8]);
      // Of what was read above, and of nothing else.
      expect([reads.mock.calls.length, writes.mock.calls.length]).toEqual([1, 0]);
      jest.restoreAllMocks();
      expect(bindings.inputs.past).toBeInstanceOf(MLTensor);
      expect(bindings.inputs.past.shape).toEqual([9]);
      expect(bindings.outputs.doubled).toBeInstanceOf(MLTensor);
      expect([...new Float32Array(await each.readTensor(bindings.inputs.past))]).toEqual([9, 1, 0, 2, 0, 3, 0, 4, 0]);
      expect([...(await bindings.read('same')).data]).toEqual([9, 1, 0, 2, 0, 3, 0]);
      // The past of now and of the step before twice, which share memory, and what was found.
      expect(each.memoryUsage().tensors).toBeLessThanOrEqual(4 * (9 + 7 + 1) + 3 * 64);
      // Nothing is in it.
      bindings.write('x', { data: floats(0), shape: [1] });
      bindings.dispatch();
      expect((await bindings.read('doubled')).shape).toEqual([0]);
      expect(bindings.outputs.doubled).toBeInstanceOf(OnnxTensor);
      bindings.destroy();
      await each.readTensor(await each.createTensor({ dataType: 'int32', shape: [1], readable: true }));
      expect(each.memoryUsage().tensors).toBeLessThanOrEqual(64);
      model.destroy();
      each.destroy();
    }
  });

  test('bindings of a model that is cut take tensors, with what these have at the call', async () => {
    const model = await loadOnnx(context, found());
    const create = (size) => context.createTensor({ dataType: 'float32', shape: [size], readable: true, writable: true });
    const [past, x, present] = [await create(2), await create(1), await create(3)];
    context.writeTensor(past, floats(1, 2));
    context.writeTensor(x, floats(3));
    const bindings = await model.createBindings({ inputs: { past, x }, outputs: { present } });
    bindings.dispatch();
    expect([...(await bindings.read('present')).data]).toEqual([1, 2, 3]);
    expect(bindings.outputs.present).toBe(present);
    const { same } = bindings.outputs;
    // Who writes one of two that share memory leaves the other as it is.
    context.writeTensor(past, floats(5, 6));
    context.writeTensor(same, floats(7, 8));
    expect([...new Float32Array(await context.readTensor(past))]).toEqual([5, 6]);
    expect([...new Float32Array(await context.readTensor(present))]).toEqual([1, 2, 3]);
    expect([...new Float32Array(await context.readTensor(same))]).toEqual([7, 8]);
    // A result of another shape does not fit.
    bindings.write('x', { data: floats(4, 5), shape: [2] });
    bindings.dispatch();
    await expect(bindings.read('present')).rejects.toThrow(/outputs: 'present': found an MLTensor float32\[3\], allowed float32\[4\]/);
    bindings.write('x', { data: floats(6), shape: [1] });
    bindings.dispatch();
    expect([...(await bindings.read('present')).data]).toEqual([5, 6, 6]);
    present.destroy();
    bindings.dispatch();
    await expect(bindings.read('present')).rejects.toThrow(/'present': the MLTensor was destroyed/);
    bindings.destroy();
    for (const tensor of [past, x]) tensor.destroy();
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

/** Runs a model with nothing fixed, on all devices; the results as [shape, numbers]. */
async function results(model, inputs, options) {
  let first;
  for (const each of [context, gpu].filter(Boolean)) {
    const loaded = await loadOnnx(each, model);
    const found = Object.entries(await loaded.run(inputs, options)).map(([name, { shape, data }]) => [name, [shape, Array.from(data, Number)]]);
    const result = Object.fromEntries(found);
    first ??= result;
    expect(result).toEqual(first);
    loaded.destroy();
  }
  return first;
}

describe('values that only a run can tell', () => {
  const model = (inputs, outputs, nodes, initializers = []) =>
    writeModel({ opset: 17, inputs, outputs: outputs.map((name) => ({ name })), nodes, initializers });

  test('the shape of Reshape', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n'] }, { name: 'shape', type: 'int64', shape: ['rank'] }],
      ['y'],
      [
        { op: 'Neg', inputs: ['x'], outputs: ['n'] },
        { op: 'Reshape', inputs: ['n', 'shape'], outputs: ['r'] },
        { op: 'Abs', inputs: ['r'], outputs: ['y'] },
      ],
    );
    const x = floats(1, -2, 3, -4, 5, -6);
    expect(await results(bytes, { x, shape: longs(2, -1) })).toEqual({ y: [[2, 3], [1, 2, 3, 4, 5, 6]] });
    expect(await results(bytes, { x, shape: longs(3, 1, 2) })).toEqual({ y: [[3, 1, 2], [1, 2, 3, 4, 5, 6]] });
    const loaded = await loadOnnx(context, bytes);
    await expect(loaded.run({ x, shape: longs(4, -1) })).rejects.toThrow(/cannot become/);
    // A wrong value spoils no other run.
    expect((await loaded.run({ x, shape: longs(6, 1) })).y.shape).toEqual([6, 1]);
    loaded.destroy();
  });

  test('where the model is cut, and why', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: [2, 2] }, { name: 'shape', type: 'int64', shape: [1] }],
      ['y'],
      [{ op: 'Reshape', name: 'the node', inputs: ['x', 'shape'], outputs: ['y'] }],
    );
    const loaded = await loadOnnx(context, bytes);
    expect(loaded.graph).toBeUndefined();
    expect(loaded.cuts).toEqual([{ node: 'the node', operator: 'Reshape', reason: expect.stringContaining('computed when the graph runs') }]);
    loaded.destroy();
  });

  test('what NonZero finds, and what is computed from it', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n', 'm'] }],
      ['places', 'values', 'count'],
      [
        { op: 'Mul', inputs: ['x', 'two'], outputs: ['d'] },
        { op: 'NonZero', inputs: ['d'], outputs: ['places'] },
        { op: 'Transpose', inputs: ['places'], outputs: ['t'] },
        { op: 'GatherND', inputs: ['d', 't'], outputs: ['values'] },
        { op: 'Shape', inputs: ['values'], outputs: ['count'] },
      ],
      [tensor('two', 'float', [], floats(2))],
    );
    const x = (...numbers) => ({ x: { data: floats(...numbers), shape: [2, numbers.length / 2] } });
    expect(await results(bytes, x(1, 0, 0, 4))).toEqual({ places: [[2, 2], [0, 1, 0, 1]], values: [[2], [2, 8]], count: [[1], [2]] });
    expect(await results(bytes, x(0, 0, 3, 0, 5, 0))).toEqual({ places: [[2, 2], [0, 1, 2, 1]], values: [[2], [6, 10]], count: [[1], [2]] });
    expect(await results(bytes, x(0, 0))).toEqual({ places: [[2, 0], []], values: [[0], []], count: [[1], [0]] });
  });

  test('Compress and TopK', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n', 2] }, { name: 'c', type: 'bool', shape: ['n'] }, { name: 'k', type: 'int64', shape: [1] }],
      ['rows', 'best', 'at'],
      [
        { op: 'Compress', inputs: ['x', 'c'], outputs: ['rows'], attributes: { axis: 0 } },
        { op: 'TopK', inputs: ['rows', 'k'], outputs: ['best', 'at'], attributes: { axis: 0 } },
      ],
    );
    const inputs = { x: floats(1, 8, 2, 7, 3, 6), c: Uint8Array.of(1, 0, 1), k: longs(1) };
    expect(await results(bytes, inputs)).toEqual({ rows: [[2, 2], [1, 8, 3, 6]], best: [[1, 2], [3, 8]], at: [[1, 2], [1, 0]] });
  });

  test('Range, Expand, Tile, Slice, Pad and ConstantOfShape of values of the run', async () => {
    const bytes = model(
      [{ name: 'n', type: 'int64', shape: [] }, { name: 'x', type: 'float', shape: ['a'] }],
      ['range', 'expanded', 'tiled', 'sliced', 'padded', 'ones'],
      [
        { op: 'Range', inputs: ['zero', 'n', 'one'], outputs: ['range'] },
        { op: 'Unsqueeze', inputs: ['n', 'axes'], outputs: ['list'] },
        { op: 'Concat', inputs: ['list', 'ones1'], outputs: ['shape'], attributes: { axis: 0 } },
        { op: 'Expand', inputs: ['x', 'shape'], outputs: ['expanded'] },
        { op: 'Tile', inputs: ['x', 'list'], outputs: ['tiled'] },
        { op: 'Slice', inputs: ['x', 'axes', 'list'], outputs: ['sliced'] },
        { op: 'Concat', inputs: ['axes', 'list'], outputs: ['pads'], attributes: { axis: 0 } },
        { op: 'Pad', inputs: ['x', 'pads'], outputs: ['padded'] },
        { op: 'ConstantOfShape', inputs: ['list'], outputs: ['ones'], attributes: { value: { tensor: tensor('', 'float', [1], floats(1)) } } },
      ],
      [tensor('zero', 'int64', [], longs(0)), tensor('one', 'int64', [], longs(1)), tensor('axes', 'int64', [1], longs(0)), tensor('ones1', 'int64', [1], longs(1))],
    );
    expect(await results(bytes, { n: longs(2), x: floats(5, 6, 7) })).toEqual({
      range: [[2], [0, 1]],
      expanded: [[2, 3], [5, 6, 7, 5, 6, 7]],
      tiled: [[6], [5, 6, 7, 5, 6, 7]],
      sliced: [[2], [5, 6]],
      padded: [[5], [5, 6, 7, 0, 0]],
      ones: [[2], [1, 1]],
    });
  });

  test('random numbers follow a seed', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n'] }],
      ['y', 'z'],
      [
        { op: 'RandomNormalLike', inputs: ['x'], outputs: ['r'] },
        { op: 'Mul', inputs: ['r', 'x'], outputs: ['y'] },
        { op: 'RandomUniformLike', inputs: ['x'], outputs: ['z'], attributes: { seed: { float: 3 } } },
      ],
    );
    const x = new Float32Array(4).fill(1);
    const first = await results(bytes, { x }, { seed: 7 });
    const second = await results(bytes, { x }, { seed: 8 });
    expect(second.z).toEqual(first.z);
    expect(second.y).not.toEqual(first.y);
    // On every machine.
    expect(first.y[1].map((value) => value.toFixed(4))).toMatchInlineSnapshot(`
[
  "0.2888",
  "-0.2273",
  "-0.8602",
  "0.2433",
]
`);
    const loaded = await loadOnnx(context, bytes);
    const [a, b] = [await loaded.run({ x }), await loaded.run({ x })];
    expect([...a.y.data]).not.toEqual([...b.y.data]);
    await expect(loaded.run({ x }, { seed: -1 })).rejects.toThrow(/seed: found -1/);
    loaded.destroy();
  });
});

/** A graph of an attribute. */
const graph = (inputs, outputs, nodes, initializers = []) => ({ graph: { inputs: inputs.map((name) => ({ name })), outputs: outputs.map((name) => ({ name })), nodes, initializers } });

describe('control flow', () => {
  const model = (inputs, outputs, nodes, initializers = []) =>
    writeModel({ opset: 17, inputs, outputs: outputs.map((name) => ({ name })), nodes, initializers });
  const scalar = (name, type, value) => tensor(name, type, [], value);

  test('If whose branches give different shapes', async () => {
    const bytes = model(
      [{ name: 'c', type: 'bool', shape: [] }, { name: 'x', type: 'float', shape: ['n'] }],
      ['y', 'size'],
      [
        { op: 'Neg', inputs: ['x'], outputs: ['n'] },
        {
          op: 'If',
          inputs: ['c'],
          outputs: ['b'],
          attributes: {
            then_branch: graph([], ['both'], [{ op: 'Concat', inputs: ['n', 'x'], outputs: ['both'], attributes: { axis: 0 } }]),
            else_branch: graph([], ['both'], [{ op: 'Abs', inputs: ['n'], outputs: ['both'] }]),
          },
        },
        { op: 'Add', inputs: ['b', 'one'], outputs: ['y'] },
        { op: 'Shape', inputs: ['y'], outputs: ['size'] },
      ],
      [scalar('one', 'float', floats(1))],
    );
    const x = floats(1, 2);
    expect(await results(bytes, { c: Uint8Array.of(1), x })).toEqual({ y: [[4], [0, -1, 2, 3]], size: [[1], [4]] });
    expect(await results(bytes, { c: Uint8Array.of(0), x })).toEqual({ y: [[2], [2, 3]], size: [[1], [2]] });
  });

  test('an If within a branch, whose condition is computed there', async () => {
    const inner = {
      op: 'If',
      inputs: ['more'],
      outputs: ['inner'],
      attributes: {
        then_branch: graph([], ['r'], [{ op: 'Concat', inputs: ['d', 'd'], outputs: ['r'], attributes: { axis: 0 } }]),
        else_branch: graph([], ['r'], [{ op: 'Identity', inputs: ['d'], outputs: ['r'] }]),
      },
    };
    const bytes = model(
      [{ name: 'c', type: 'bool', shape: [] }, { name: 'x', type: 'float', shape: ['n'] }],
      ['y'],
      [
        {
          op: 'If',
          inputs: ['c'],
          outputs: ['y'],
          attributes: {
            then_branch: graph([], ['out'], [
              { op: 'Mul', inputs: ['x', 'two'], outputs: ['d'] },
              { op: 'ReduceSum', inputs: ['d'], outputs: ['s'], attributes: { keepdims: 0 } },
              { op: 'Greater', inputs: ['s', 'two'], outputs: ['more'] },
              inner,
              { op: 'Neg', inputs: ['inner'], outputs: ['out'] },
            ]),
            else_branch: graph([], ['out'], [{ op: 'Slice', inputs: ['x', 'zero', 'zero'], outputs: ['out'] }]),
          },
        },
      ],
      [scalar('two', 'float', floats(2)), tensor('zero', 'int64', [1], longs(0))],
    );
    const run = (c, ...x) => results(bytes, { c: Uint8Array.of(c), x: floats(...x) });
    expect(await run(1, 1, 2)).toEqual({ y: [[4], [-2, -4, -2, -4]] });
    expect(await run(1, 1, -2)).toEqual({ y: [[2], [-2, 4]] });
    expect(await run(0, 1, -2)).toEqual({ y: [[0], []] });
  });

  test('Loop: a number of runs, values that go round and grow, and results of each run', async () => {
    const bytes = model(
      [{ name: 'trips', type: 'int64', shape: [] }, { name: 'x', type: 'float', shape: ['n'] }],
      ['last', 'all', 'sums'],
      [
        { op: 'Identity', inputs: ['x'], outputs: ['first'] },
        {
          op: 'Loop',
          inputs: ['trips', '', 'first', 'x'],
          outputs: ['last', 'all', 'sums'],
          attributes: {
            body: graph(['i', 'c', 'value', 'grown'], ['go', 'next', 'longer', 'sum'], [
              { op: 'Add', inputs: ['value', 'w'], outputs: ['next'] },
              { op: 'Concat', inputs: ['grown', 'next'], outputs: ['longer'], attributes: { axis: 0 } },
              { op: 'ReduceSum', inputs: ['longer'], outputs: ['sum'], attributes: { keepdims: 0 } },
              { op: 'Identity', inputs: ['c'], outputs: ['go'] },
            ]),
          },
        },
      ],
      [scalar('w', 'float', floats(10))],
    );
    const run = (trips) => results(bytes, { trips: longs(trips), x: floats(1, 2) });
    expect(await run(2)).toEqual({ last: [[2], [21, 22]], all: [[6], [1, 2, 11, 12, 21, 22]], sums: [[2], [26, 69]] });
    expect(await run(0)).toEqual({ last: [[2], [1, 2]], all: [[2], [1, 2]], sums: [[0], []] });
  });

  test('Loop that ends by its condition, and uses the number of the run as a size', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n'] }],
      ['total', 'parts'],
      [
        {
          op: 'Loop',
          inputs: ['', 'yes', 'start'],
          outputs: ['total', 'parts'],
          attributes: {
            body: graph(['i', 'c', 'sum'], ['go', 'next', 'part'], [
              { op: 'Unsqueeze', inputs: ['i', 'axes'], outputs: ['end'] },
              { op: 'Slice', inputs: ['x', 'axes', 'end'], outputs: ['head'] },
              { op: 'ReduceSum', inputs: ['head'], outputs: ['part'], attributes: { keepdims: 0 } },
              { op: 'Add', inputs: ['sum', 'part'], outputs: ['next'] },
              { op: 'Less', inputs: ['next', 'ten'], outputs: ['go'] },
            ]),
          },
        },
      ],
      [tensor('yes', 'bool', [], Uint8Array.of(1)), scalar('start', 'float', floats(0)), scalar('ten', 'float', floats(10)), tensor('axes', 'int64', [1], longs(0))],
    );
    // 0, 1, 1 + 2, 1 + 2 + 3: together 10.
    expect(await results(bytes, { x: floats(1, 2, 3, 4) })).toEqual({ total: [[], [10]], parts: [[4], [0, 1, 3, 6]] });
  });

  test('a loop without an end ends with an error', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: [1] }],
      ['y'],
      [
        {
          op: 'Loop',
          inputs: ['', 'yes', 'x'],
          outputs: ['y', 'all'],
          attributes: { body: graph(['i', 'c', 'a'], ['c2', 'b', 'each'], [
            { op: 'Neg', inputs: ['a'], outputs: ['b'] },
            { op: 'Tile', inputs: ['b', 'many'], outputs: ['each'] },
            { op: 'Identity', inputs: ['c'], outputs: ['c2'] },
          ]) },
        },
      ],
      [tensor('yes', 'bool', [], Uint8Array.of(1)), tensor('many', 'int64', [1], longs(1000))],
    );
    const loaded = await loadOnnx(context, bytes);
    await expect(loaded.run({ x: floats(1) }, { maxBytes: 100_000 })).rejects.toThrow(/\(Loop\): found values of \d+ bytes, allowed at most 100000 \(maxBytes\)/);
    // One that nobody can wait for ends with its context.
    const own = await ml.createContext({ accelerated: false });
    const endless = await loadOnnx(own, bytes);
    const pending = endless.run({ x: floats(1) });
    await nextRound();
    own.destroy();
    await expect(pending).rejects.toMatchObject({ name: 'InvalidStateError' });
    loaded.destroy();
  });

  test('Scan along axes and backwards', async () => {
    const bytes = model(
      [{ name: 's', type: 'float', shape: [2] }, { name: 'x', type: 'float', shape: [2, 'n'] }],
      ['last', 'all'],
      [
        {
          op: 'Scan',
          inputs: ['s', 'x'],
          outputs: ['last', 'all'],
          attributes: {
            num_scan_inputs: 1,
            scan_input_axes: [1],
            scan_input_directions: [1],
            scan_output_axes: [-1],
            scan_output_directions: [1],
            body: graph(['a', 'b'], ['sum', 'each'], [
              { op: 'Add', inputs: ['a', 'b'], outputs: ['sum'] },
              { op: 'Neg', inputs: ['sum'], outputs: ['each'] },
            ]),
          },
        },
      ],
    );
    // The columns [3, 30], [2, 20], [1, 10] in this order.
    expect(await results(bytes, { s: floats(0, 0), x: floats(1, 2, 3, 10, 20, 30) })).toEqual({
      last: [[2], [6, 60]],
      all: [[2, 3], [-6, -5, -3, -60, -50, -30]],
    });
  });

  test('sequences: split, mapped, collected in a loop, joined', async () => {
    const bytes = model(
      [{ name: 'x', type: 'float', shape: ['n', 2] }, { name: 'k', type: 'int64', shape: [] }],
      ['joined', 'second', 'count', 'stacked'],
      [
        { op: 'SplitToSequence', inputs: ['x'], outputs: ['rows'], attributes: { axis: 0, keepdims: 0 } },
        {
          op: 'SequenceMap',
          inputs: ['rows'],
          outputs: ['doubled'],
          attributes: { body: graph(['row'], ['twice'], [{ op: 'Add', inputs: ['row', 'row'], outputs: ['twice'] }]) },
        },
        { op: 'ConcatFromSequence', inputs: ['doubled'], outputs: ['joined'], attributes: { axis: 0 } },
        { op: 'SequenceAt', inputs: ['rows', 'one'], outputs: ['second'] },
        { op: 'SequenceEmpty', inputs: [], outputs: ['none'] },
        {
          op: 'Loop',
          inputs: ['k', '', 'none'],
          outputs: ['collected'],
          attributes: {
            body: graph(['i', 'c', 'list'], ['go', 'longer'], [
              { op: 'SequenceAt', inputs: ['doubled', 'i'], outputs: ['element'] },
              { op: 'SequenceInsert', inputs: ['list', 'element', 'front'], outputs: ['longer'] },
              { op: 'Identity', inputs: ['c'], outputs: ['go'] },
            ]),
          },
        },
        { op: 'SequenceLength', inputs: ['collected'], outputs: ['count'] },
        { op: 'ConcatFromSequence', inputs: ['collected'], outputs: ['stacked'], attributes: { axis: 0, new_axis: 1 } },
      ],
      [tensor('one', 'int64', [], longs(1)), tensor('front', 'int64', [], longs(0))],
    );
    expect(await results(bytes, { x: floats(1, 2, 3, 4, 5, 6), k: longs(2) })).toEqual({
      joined: [[6], [2, 4, 6, 8, 10, 12]],
      second: [[2], [3, 4]],
      count: [[], [2]],
      stacked: [[2, 2], [6, 8, 2, 4]],
    });
  });
});
