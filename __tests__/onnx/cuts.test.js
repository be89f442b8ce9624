'use strict';

// Models that are cut where a value of the run decides a shape, or which nodes are run.

const { setImmediate: nextRound } = require('node:timers/promises');
const { MLContext, MLTensor, ml } = require('webnn-node');
const { OnnxTensor, loadOnnx } = require('webnn-node/onnx');
const { withContexts } = require('./contexts.js');
const { floats, longs, tensor, writeModel } = require('./write.js');

let context;
let gpu;
withContexts((cpu, other) => {
  [context, gpu] = [cpu, other];
});

/** present = past and x after it; doubled = twice what of x is not 0, after a cut; same = past. */
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

test('a run tells how many rows of a cache of a fixed size have scores', async () => {
  const names = ['q', 'k', 'v', '', '', '', 'keys', 'values', 'count'];
  const shapes = { q: [1, 1, 2], k: [1, 1, 2], v: [1, 1, 2], keys: [1, 1, 4, 2], values: [1, 1, 4, 2] };
  const scores = writeModel({
    opset: 17,
    inputs: [...Object.entries(shapes).map(([name, shape]) => ({ name, type: 'float', shape })), { name: 'count', type: 'int32', shape: [1] }],
    outputs: ['y', 'newKeys', 'newValues', 'scores'].map((name) => ({ name })),
    nodes: [{ op: 'MultiHeadAttention', domain: 'com.microsoft', inputs: names, outputs: ['y', 'newKeys', 'newValues', 'scores'], attributes: { num_heads: 1, scale: { float: 1 } } }],
  });
  for (const each of [context, gpu].filter(Boolean)) {
    const model = await loadOnnx(each, scores);
    const keys = floats(1, 2, 3, 4, NaN, NaN, NaN, NaN);
    for (const [count, expected] of [[2, [1, 3, 10]], [0, [10]], [1, [1, 10]]]) {
      const inputs = { q: floats(1, 0), k: floats(10, 20), v: floats(1, 1), keys, values: floats(1, 1, 1, 1, NaN, NaN, NaN, NaN), count: Int32Array.of(count) };
      const results = await model.run(inputs);
      expect([results.scores.shape, [...results.scores.data]]).toEqual([[1, 1, 1, count + 1], expected]);
      expect(results.y.data[0]).toBeCloseTo(1, 6);
    }
    model.destroy();
  }
});

describe('plans and bindings', () => {
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
