'use strict';

// Dynamic batching: joined runs against the same runs alone.

const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { setImmediate: nextRound } = require('node:timers/promises');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const ort = require('webnn-node/onnxruntime');
const { tensor, writeModel } = require('./write.js');

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterAll(() => context.destroy());

const loaded = [];
async function load(model, batching, options = {}) {
  const one = await loadOnnx(context, model, { batching, ...options });
  loaded.push(one);
  return one;
}
afterEach(() => {
  for (const model of loaded.splice(0)) model.destroy();
});

const WIDTH = 4;

/** Softmax over a text of each row, and a product: y of [batch, length, 3]. Z is a mean over the text. */
function texts() {
  return writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['batch', 'length', WIDTH] }],
    outputs: [{ name: 'y' }, { name: 'z' }],
    initializers: [
      tensor('w', 'float', [WIDTH, 3], Float32Array.from({ length: 3 * WIDTH }, (_, i) => Math.sin(i))),
      tensor('flat', 'int64', [2], BigInt64Array.of(-1n, BigInt(WIDTH))),
    ],
    nodes: [
      { op: 'Softmax', inputs: ['x'], outputs: ['s'], attributes: { axis: 1 } },
      { op: 'Shape', inputs: ['x'], outputs: ['shape'], attributes: { start: 0, end: 2 } },
      { op: 'Constant', inputs: [], outputs: ['three'], attributes: { value_ints: [3] } },
      { op: 'Concat', inputs: ['shape', 'three'], outputs: ['back'], attributes: { axis: 0 } },
      { op: 'Reshape', inputs: ['s', 'flat'], outputs: ['rows'] },
      { op: 'MatMul', inputs: ['rows', 'w'], outputs: ['p'] },
      { op: 'Reshape', inputs: ['p', 'back'], outputs: ['y'] },
      { op: 'ReduceMean', inputs: ['s'], outputs: ['z'], attributes: { axes: [1], keepdims: 0 } },
    ],
  });
}

/** y = x + 1 for x of [batch, 2]. */
const plus = (extra = {}) =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['batch', 2] }],
    outputs: [{ name: 'y' }],
    initializers: [tensor('one', 'float', [], Float32Array.of(1))],
    nodes: [{ op: 'Add', inputs: ['x', 'one'], outputs: ['y'] }],
    ...extra,
  });

const pair = (a, b = a) => ({ x: Float32Array.of(a, b) });

function text(rows, length, seed) {
  const shape = [rows, length, WIDTH];
  return { x: { data: Float32Array.from({ length: rows * length * WIDTH }, (_, i) => Math.cos(i * 0.7 + seed)), shape } };
}

function expectNear(found, expected) {
  expect(found.shape).toEqual(expected.shape);
  for (let i = 0; i < expected.data.length; i++) expect(Math.abs(found.data[i] - expected.data[i])).toBeLessThan(1e-6);
}

describe('joined runs', () => {
  test('give each caller what it gets alone', async () => {
    const alone = await load(texts());
    const model = await load(texts(), {});
    const inputs = Array.from({ length: 40 }, (_, i) => text(i % 5 === 0 ? 2 : 1, [3, 7][i % 2], i));
    const results = await Promise.all(inputs.map((input) => model.run(input)));
    for (const [i, input] of inputs.entries()) {
      const expected = await alone.run(input);
      expect(Object.keys(results[i])).toEqual(['y', 'z']);
      expectNear(results[i].y, expected.y);
      expectNear(results[i].z, expected.z);
    }
    const { axes, requests, runs, joined, refused } = model.batching;
    expect({ axes, requests, refused }).toEqual({ axes: { x: 0 }, requests: 40, refused: [] });
    expect(joined).toBeGreaterThan(30);
    expect(runs).toBeLessThan(12);
    expect(alone.batching).toBeUndefined();
  });

  test('go together when they have gathered, each with memory of its own', async () => {
    const model = await load(plus(), true);
    const x = Float32Array.of(0, 0);
    const running = Array.from({ length: 9 }, (_, i) => {
      x.fill(i);
      // It is copied at the call.
      return model.run({ x });
    });
    x.fill(-1);
    const results = await Promise.all(running);
    expect(results.map(({ y }) => [...y.data])).toEqual(results.map((_, i) => [i + 1, i + 1]));
    expect(new Set(results.map(({ y }) => y.data.buffer)).size).toBe(9);
    for (const { y } of results) expect(y.data.buffer.byteLength).toBe(8);
    // The first one alone, and then the eight others.
    expect(model.batching).toMatchObject({ requests: 9, runs: 2, joined: 8 });
    // Those that follow at once are joined, too, though nothing is under way.
    await Promise.all(Array.from({ length: 4 }, (_, i) => model.run(pair(i))));
    expect(model.batching).toMatchObject({ requests: 13, runs: 3, joined: 12 });
    // A lone one is run as without the option.
    expect([...(await model.run(pair(5))).y.data]).toEqual([6, 6]);
    expect(model.batching).toMatchObject({ requests: 14, runs: 4, joined: 12 });
  });

  test('have at most so many rows, and so many elements', async () => {
    const few = await load(plus(), { maxSize: 2 });
    await Promise.all(Array.from({ length: 9 }, (_, i) => few.run(pair(i))));
    expect(few.batching).toMatchObject({ runs: 5, joined: 8, maxSize: 2 });
    const small = await load(plus(), { maxElements: 8 });
    await Promise.all(Array.from({ length: 9 }, (_, i) => small.run(pair(i))));
    expect(small.batching).toMatchObject({ runs: 3, joined: 8, maxElements: 8 });
    // Too many rows to be joined.
    const { y } = await small.run({ x: Float32Array.from({ length: 80 }, (_, i) => i) });
    expect(y.data).toEqual(Float32Array.from({ length: 80 }, (_, i) => i + 1));
    expect(small.batching.requests).toBe(9);
  });

  test('wait for others if they are told to', async () => {
    const model = await load(plus(), { maxSize: 4, maxDelay: 50_000 });
    const isSettled = [];
    const running = [0, 1, 2].map((i) => model.run(pair(i)).then((result) => (isSettled.push(i), result)));
    for (let i = 0; i < 20; i++) await nextRound();
    expect(isSettled).toEqual([]);
    running.push(model.run(pair(3)));
    expect((await Promise.all(running)).map(({ y }) => y.data[0])).toEqual([1, 2, 3, 4]);
    expect(model.batching).toMatchObject({ runs: 1, joined: 4, maxDelay: 50_000 });
    const short = await load(plus(), { maxDelay: 1 });
    expect((await short.run(pair(7))).y.data[0]).toBe(8);
  });

  test('are joined after requests of many other shapes that are not', async () => {
    const model = await load(plus({ inputs: [{ name: 'x', type: 'float', shape: ['batch', 'height', 'width'] }] }), { maxElements: 16 });
    const row = (width, height = 1) => ({ x: { data: new Float32Array(height * width), shape: [1, height, width] } });
    const three = async () => (await Promise.all([model.run(row(8)), model.run(row(8)), model.run(row(8))])).map(({ y }) => y.data[0]);
    expect(await three()).toEqual([1, 1, 1]);
    // Whichever of the two is the length of a text.
    for (let size = 17; size < 17 + 260; size++) await Promise.all([model.run(row(size, 1)), model.run(row(1, size))]);
    expect(await three()).toEqual([1, 1, 1]);
    expect(model.batching).toMatchObject({ requests: 6, joined: 4 });
  });

  test('of other shapes have their turn, however many wait of one shape', async () => {
    const model = await load(plus({ inputs: [{ name: 'x', type: 'float', shape: ['batch', 'width'] }] }), { maxSize: 4, maxDelay: 1 });
    const row = (width) => ({ x: { data: new Float32Array(width), shape: [1, width] } });
    // Twice as many as go together, so that as many as that wait at any time.
    let rest = 20_000;
    const client = async () => {
      while (rest-- > 0) await model.run(row(2), { priority: 'low' });
    };
    const clients = Promise.all(Array.from({ length: 8 }, client));
    for (const priority of ['normal', 'high', 'low']) {
      await model.run(row(3), { priority });
      expect(rest).toBeGreaterThan(0);
    }
    rest = 0;
    await clients;
  });

  test('do not wait for less urgent ones', async () => {
    const model = await load(plus(), {});
    const [results, runs] = [[], []];
    const run = (priority, i = results.length) => {
      results.push(model.run(pair(i), { priority }).then(({ y }) => y.data[0] - i));
      runs.push(model.batching.runs);
    };
    // Each is more urgent than what is under way, and goes at once; the others go together when the most urgent one has ended.
    for (const priority of ['low', 'normal', 'high', 'low', 'high', 'normal', 'low']) run(priority);
    expect(await Promise.all(results)).toEqual(new Array(7).fill(1));
    expect(runs).toEqual([1, 2, 3, 3, 3, 3, 3]);
    expect(model.batching).toMatchObject({ requests: 7, runs: 4, joined: 4 });
    // What has ended holds nobody up.
    run('low');
    await results.at(-1);
    expect(model.batching.runs).toBe(5);
  });

  test('wait no longer when the model or the context is destroyed', async () => {
    const own = await ml.createContext({ accelerated: false });
    const [model, other] = [await loadOnnx(own, plus(), { batching: { maxDelay: 60_000 } }), await loadOnnx(own, plus(), { batching: { maxDelay: 60_000 } })];
    const running = model.run(pair(1));
    await nextRound();
    model.destroy();
    expect((await running).y.data[0]).toBe(2);
    const waiting = other.run(pair(1));
    await nextRound();
    own.destroy();
    await expect(waiting).rejects.toMatchObject({ name: 'InvalidStateError' });
  });

  test('have the dimension that is proved, and not one that cannot be tried', async () => {
    const named = { inputs: [{ name: 'x', type: 'float', shape: [3, 'N', 4] }, { name: 'b', type: 'float', shape: ['N'] }] };
    const nodes = [{ op: 'Unsqueeze', inputs: ['b', 'one'], outputs: ['column'] }, { op: 'Mul', inputs: ['x', 'column'], outputs: ['y'] }];
    const model = await load(plus({ ...named, initializers: [tensor('one', 'int64', [1], BigInt64Array.of(1n))], nodes }), {});
    expect(model.batching.axes).toEqual({ x: 1, b: 0 });
    const run = (i) => model.run({ x: { data: new Float32Array(12).fill(i), shape: [3, 1, 4] }, b: Float32Array.of(i) });
    const results = await Promise.all([1, 2, 3, 4].map(run));
    results.forEach(({ y }, i) => expect(y.data).toEqual(new Float32Array(12).fill((i + 1) ** 2)));
    expect(model.batching.joined).toBeGreaterThan(0);
  });

  test('have several rows of a caller, along whatever axis', async () => {
    const model = await load(
      writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: [2, 'batch', 3] }],
        outputs: [{ name: 'y' }],
        initializers: [tensor('one', 'float', [], Float32Array.of(1))],
        nodes: [
          { op: 'Add', inputs: ['x', 'one'], outputs: ['sum'] },
          { op: 'Constant', inputs: [], outputs: ['zero'], attributes: { value_int: 0 } },
          { op: 'CumSum', inputs: ['sum', 'zero'], outputs: ['y'] },
        ],
      }),
      {},
    );
    expect(model.batching.axes).toEqual({ x: 1 });
    const input = (rows, seed) => ({ x: { data: Float32Array.from({ length: 6 * rows }, (_, i) => 100 * seed + i), shape: [2, rows, 3] } });
    const inputs = [1, 2, 1, 3, 1, 1].map(input);
    const results = await Promise.all(inputs.map((each) => model.run(each)));
    const joined = model.batching.joined;
    for (const [i, each] of inputs.entries()) {
      const { y } = await model.run(each);
      expect([results[i].y.shape, results[i].y.data]).toEqual([y.shape, y.data]);
    }
    expect(joined).toBe(5);
  });

  test('leave inputs alone that all have in common, and join only what has the same', async () => {
    const scaled = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: ['batch', 2] }, { name: 'scale', type: 'float', shape: [2] }],
      outputs: [{ name: 'y' }, { name: 'twice' }],
      nodes: [
        { op: 'Mul', inputs: ['x', 'scale'], outputs: ['y'] },
        { op: 'Add', inputs: ['scale', 'scale'], outputs: ['twice'] },
      ],
    });
    const model = await load(scaled, {});
    const input = (i) => ({ ...pair(i), scale: Float32Array.of(1 + (i % 2), 3) });
    const results = await Promise.all(Array.from({ length: 6 }, (_, i) => model.run(input(i))));
    expect(results.map(({ y, twice }) => [...y.data, ...twice.data])).toEqual(results.map((_, i) => [i * (1 + (i % 2)), 3 * i, 2 + 2 * (i % 2), 6]));
    expect(new Set(results.map(({ twice }) => twice.data.buffer)).size).toBe(6);
    const same = await load(scaled, {});
    await Promise.all(Array.from({ length: 5 }, (_, i) => same.run(input(2 * i))));
    expect(same.batching).toMatchObject({ runs: 2, joined: 4 });
  });

  test('put results into the arrays of their callers, and give the outputs that each wants', async () => {
    const model = await load(texts(), {});
    const into = new Float32Array(9);
    const [first, y, z, all] = await Promise.all([
      model.run(text(1, 3, 0)),
      model.run(text(1, 3, 1), { outputs: { y: into } }),
      model.run(text(1, 3, 1), { outputs: ['z'] }),
      model.run(text(1, 3, 1)),
    ]);
    expect(Object.keys(first)).toEqual(['y', 'z']);
    expect(Object.keys(y)).toEqual(['y']);
    expect(y.y.data).toBe(into);
    expect(Object.keys(z)).toEqual(['z']);
    expect(into).toEqual(all.y.data);
    expect(z.z.data).toEqual(all.z.data);
    // An array of another length is the error of its caller.
    const [, wrong, right] = await Promise.allSettled([
      model.run(text(1, 3, 0)),
      model.run(text(1, 3, 1), { outputs: { y: new Float32Array(2) } }),
      model.run(text(1, 3, 1)),
    ]);
    expect(wrong.reason.message).toMatch(/'y': found an array of 2 elements, allowed 9/);
    expectNear(right.value.y, all.y);
  });

  test('complete when the model is destroyed', async () => {
    const model = await load(plus(), {});
    const running = Array.from({ length: 5 }, (_, i) => model.run(pair(i)));
    model.destroy();
    expect((await Promise.all(running)).map(({ y }) => y.data[0])).toEqual([1, 2, 3, 4, 5]);
    await expect(model.run(pair(0))).rejects.toThrow(/destroyed/);
  });
});

describe('one that fails or is cancelled', () => {
  /** Rows of a table: indices beyond it are refused. */
  const lookup = () =>
    writeModel({
      opset: 17,
      inputs: [{ name: 'i', type: 'int64', shape: ['batch'] }],
      outputs: [{ name: 'y' }],
      initializers: [tensor('table', 'float', [3, 2], Float32Array.of(0, 1, 10, 11, 20, 21))],
      nodes: [{ op: 'Gather', inputs: ['table', 'i'], outputs: ['y'] }],
    });

  test('does not touch the others', async () => {
    const model = await load(lookup(), {});
    const indices = [0, 1, 2, 7, 1, 0, 2, 1, 0];
    const settled = await Promise.allSettled(indices.map((i) => model.run({ i: BigInt64Array.of(BigInt(i)) })));
    for (const [position, { status, value, reason }] of settled.entries()) {
      if (indices[position] === 7) expect(reason.message).toMatch(/7/);
      else expect([status, [...value.y.data]]).toEqual(['fulfilled', [10 * indices[position], 10 * indices[position] + 1]]);
    }
    // And those that follow are joined as before.
    await Promise.all(Array.from({ length: 4 }, () => model.run({ i: BigInt64Array.of(1n) })));
    expect(model.batching.joined).toBeGreaterThan(0);
  });

  test('leaves while it waits, and while it runs', async () => {
    const model = await load(plus(), {});
    const [waits, runs] = [new AbortController(), new AbortController()];
    const running = Promise.allSettled([
      model.run(pair(0)),
      model.run(pair(1), { signal: waits.signal }),
      model.run(pair(2)),
      model.run(pair(3), { signal: runs.signal }),
      model.run(pair(4), { signal: new AbortController().signal }),
    ]);
    waits.abort(new Error('not wanted'));
    await expect(model.run(pair(9), { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
    runs.abort(new Error('too late'));
    const [first, second, third, fourth, fifth] = await running;
    expect([first, third, fifth].map(({ value }) => value.y.data[0])).toEqual([1, 3, 5]);
    expect(second.reason.message).toBe('not wanted');
    if (fourth.status === 'rejected') expect(fourth.reason.message).toBe('too late');
    else expect(fourth.value.y.data[0]).toBe(4);
    expect(model.batching.requests).toBe(5);
    // None of them keeps the model.
    expect((await model.run(pair(6))).y.data[0]).toBe(7);
  });

  test('ends a joined run that nobody wants any more', async () => {
    const count = 2000;
    const names = Array.from({ length: count }, (_, i) => `v${i}`);
    const model = await load(
      writeModel({
        opset: 17,
        inputs: [{ name: 'v0', type: 'float', shape: ['batch', 512] }],
        outputs: [{ name: names.at(-1) }],
        initializers: [tensor('w', 'float', [512, 512], new Float32Array(512 * 512).fill(1 / 512))],
        nodes: names.slice(1).map((name, i) => ({ op: 'MatMul', inputs: [names[i], 'w'], outputs: [name] })),
      }),
      { maxDelay: 1 },
    );
    const row = { v0: { data: new Float32Array(512).fill(1), shape: [1, 512] } };
    await model.prepare([{ v0: [1, 512] }, { v0: [2, 512] }]);
    const controllers = [new AbortController(), new AbortController()];
    const begun = new Promise((resolve) => {
      const tell = ({ size }) => size === 2 && resolve(unsubscribe('webnn-node:batch', tell));
      subscribe('webnn-node:batch', tell);
    });
    const running = Promise.allSettled(controllers.map(({ signal }) => model.run(row, { signal })));
    await begun;
    controllers.forEach((controller, i) => controller.abort(i));
    expect((await running).map(({ reason }) => reason)).toEqual([0, 1]);
    // It comes after that run, which has not counted.
    expect((await model.run(row))[names.at(-1)].data[511]).toBeCloseTo(1, 4);
    expect(model.batching).toMatchObject({ requests: 3, runs: 1, joined: 0 });
  });

  test('is not joined with a limit or a seed of its own', async () => {
    const model = await load(plus(), {});
    const [, refused, seeded] = await Promise.allSettled([model.run(pair(0)), model.run(pair(1), { maxBytes: 1 }), model.run(pair(2), { seed: 3 })]);
    expect(refused.reason.name).toBe('OperationError');
    expect(seeded.value.y.data[0]).toBe(3);
    expect(model.batching.requests).toBe(1);
  });
});

describe('models whose rows see each other are refused', () => {
  const model = (nodes, initializers = [], shape = ['batch', 2]) =>
    writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape }], outputs: [{ name: 'y' }], initializers, nodes });

  test.each([
    ['a mean over the batch', /'mean of all' \(reduceMean\)/, [{ op: 'ReduceMean', name: 'mean of all', inputs: ['x'], outputs: ['y'], attributes: { axes: [0] } }]],
    [
      'a position that counts rows',
      /add positions/,
      [
        { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
        { op: 'Squeeze', inputs: ['rows'], outputs: ['count'] },
        { op: 'Constant', inputs: [], outputs: ['zero'], attributes: { value_int: 0 } },
        { op: 'Constant', inputs: [], outputs: ['step'], attributes: { value_int: 1 } },
        { op: 'Range', inputs: ['zero', 'count', 'step'], outputs: ['range'] },
        { op: 'Constant', inputs: [], outputs: ['axis'], attributes: { value_ints: [1] } },
        { op: 'Unsqueeze', inputs: ['range', 'axis'], outputs: ['column'] },
        { op: 'Cast', inputs: ['column'], outputs: ['positions'], attributes: { to: 1 } },
        { op: 'Add', name: 'add positions', inputs: ['x', 'positions'], outputs: ['y'] },
      ],
    ],
    [
      'a reshape that folds it into others',
      /fold/,
      [
        { op: 'Transpose', inputs: ['x'], outputs: ['t'], attributes: { perm: [1, 0] } },
        { op: 'Constant', inputs: [], outputs: ['shape'], attributes: { value_ints: [-1] } },
        { op: 'Reshape', name: 'fold', inputs: ['t', 'shape'], outputs: ['y'] },
      ],
    ],
  ])('%s', async (_, message, nodes) => {
    await expect(load(model(nodes), {})).rejects.toMatchObject({ name: 'NotSupportedError', message: expect.stringMatching(message) });
  });

  test('models without an open dimension', async () => {
    await expect(load(model([{ op: 'Relu', inputs: ['x'], outputs: ['y'] }], [], [1, 2]), {})).rejects.toThrow(/no dimension of its inputs is open/);
  });

  test.each([
    [1, /batching: found 1, allowed an object or a boolean/],
    [{ maxSize: 1 }, /maxSize: found 1, allowed a whole number from 2 to 1024/],
    [{ maxSize: 2.5 }, /maxSize/],
    [{ maxDelay: -1 }, /maxDelay: found -1, allowed milliseconds/],
    [{ maxDelay: NaN }, /maxDelay/],
    [{ maxElements: '4' }, /maxElements: found '4'/],
  ])('options %p', async (batching, message) => {
    await expect(load(plus(), batching)).rejects.toThrow(message);
  });
});

test('sessions of onnxruntime', async () => {
  const session = await ort.InferenceSession.create(plus(), { batching: { maxSize: 8 } });
  const feed = (i) => ({ x: new ort.Tensor('float32', Float32Array.of(i, i), [1, 2]) });
  const results = await Promise.all(Array.from({ length: 9 }, (_, i) => session.run(feed(i))));
  expect(results.map(({ y }) => [...y.data])).toEqual(results.map((_, i) => [i + 1, i + 1]));
  expect(session.batching).toMatchObject({ requests: 9, runs: 2, joined: 8 });
  await session.release();
  await expect(ort.InferenceSession.create(plus(), { batching: { maxSize: 0 } })).rejects.toThrow(/maxSize/);
});

test('runs that wait when their context is destroyed say so', async () => {
  const own = await ml.createContext({ accelerated: false });
  const model = await loadOnnx(own, plus(), { batching: true });
  await Promise.all([1, 2, 3, 4].map((a) => model.run(pair(a))));
  // Plans for several numbers of rows are there, and a run is under way.
  const runs = [1, 2, 3, 4].map((a) => model.run(pair(a)));
  own.destroy();
  const errors = await Promise.all(runs.map((run) => run.then(() => undefined, (error) => error)));
  for (const error of errors) expect([undefined, 'InvalidStateError']).toContain(error?.name);
  await expect(model.run(pair(1))).rejects.toMatchObject({ name: 'InvalidStateError' });
  model.destroy();
});
