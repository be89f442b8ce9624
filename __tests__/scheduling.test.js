'use strict';

// docs/extensions.md C20 and C21: which work goes first, what is dropped, and how much may wait.

const { setTimeout: sleep } = require('node:timers/promises');
const { ml, MLGraphBuilder } = require('webnn-node');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { InferenceSession, Tensor } = require('webnn-node/onnxruntime');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');
const { KINDS, TOKENS, decoder } = require('./generate/decoders.js');
const { PATCHES, parts, picture, visionEncoder } = require('./generate/embeddings.js');
const { FEATURES, encoder, merged } = require('./generate/encoder-decoders.js');
const { tensor, writeModel } = require('./onnx/write.js');

const held = useContext({ accelerated: false, numThreads: 2 });
const SIZE = 256;
const square = float32(SIZE, SIZE);
const ones = () => new Float32Array(SIZE * SIZE).fill(1);
const caught = (promise) => promise.then(() => 'nothing', (error) => error);
const named = (name) => expect.objectContaining({ name });

/** `y = x`, after so many products with the identity. */
async function buildSteps(context, products) {
  const builder = new MLGraphBuilder(context);
  const identity = new Float32Array(SIZE * SIZE);
  for (let i = 0; i < SIZE; i++) identity[i * (SIZE + 1)] = 1;
  const one = builder.constant(square, identity);
  let y = builder.input('x', square);
  for (let i = 0; i < products; i++) y = builder.relu(builder.matmul(y, one));
  return builder.build({ y });
}

/** A context of its own, a tensor of ones, and others. */
async function setUp(count, options = {}) {
  const context = await ml.createContext({ accelerated: false, numThreads: 2, ...options });
  const [x, ...others] = await createTensors(context, count + 1, square);
  context.writeTensor(x, ones());
  return { context, x, others };
}

describe('priority', () => {
  test('of what waits the more urgent goes first', async () => {
    const { context, x, others } = await setUp(8, { numThreads: 1 });
    const [first, waits] = await Promise.all([buildSteps(context, 200), buildSteps(context, 20)]);
    const order = [];
    context.dispatch(first, { x }, { y: others[7] });
    const ended = others.slice(0, 7).map(async (y, i) => {
      context.dispatch(waits, { x }, { y }, { priority: ['low', 'low', 'low', 'normal', 'normal', 'normal', 'high'][i] });
      await context.readTensor(y);
      order.push(i);
    });
    await Promise.all(ended);
    expect(order).toEqual([6, 3, 4, 5, 0, 1, 2]);
    context.destroy();
  });

  test('a run gives way between its operators', async () => {
    const { context, x, others: [y, z] } = await setUp(2);
    const [long, short] = await Promise.all([buildSteps(context, 3000), buildSteps(context, 3)]);
    context.dispatch(long, { x }, { y }, { priority: 'low' });
    let isOver = false;
    const end = context.readTensor(y).then(() => (isOver = true));
    await sleep(50);
    context.dispatch(short, { x }, { y: z }, { priority: 'high' });
    expect(await read(context, z)).toEqual([...ones()]);
    expect(isOver).toBe(false);
    await end;
    expect(await read(context, y)).toEqual([...ones()]);
    context.destroy();
  });

  test('the same graph is interrupted by itself', async () => {
    const { context, x, others } = await setUp(5);
    const graph = await buildSteps(context, 300);
    const inputs = await createTensors(context, 5, square);
    inputs.forEach((tensor, i) => context.writeTensor(tensor, ones().fill(i)));
    context.dispatch(graph, { x }, { y: others[0] }, { priority: 'low' });
    for (let i = 1; i < 5; i++) {
      await sleep(5);
      context.dispatch(graph, { x: inputs[i] }, { y: others[i] }, { priority: i % 2 ? 'high' : 'normal' });
    }
    const results = await Promise.all(others.map((tensor) => read(context, tensor)));
    expect(results.map((values) => [...new Set(values)])).toEqual([[1], [1], [2], [3], [4]]);
    context.destroy();
  });

  test('nothing waits for ever', async () => {
    const { context, x, others: [y, ...others] } = await setUp(5);
    const [low, high] = await Promise.all([buildSteps(context, 20), buildSteps(context, 5)]);
    let [isOver, urgent] = [false, 0];
    const streams = others.map(async (tensor) => {
      while (!isOver) {
        context.dispatch(high, { x }, { y: tensor }, { priority: 'high' });
        await context.readTensor(tensor);
        urgent++;
      }
    });
    await sleep(30);
    context.dispatch(low, { x }, { y }, { priority: 'low' });
    urgent = 0;
    await context.readTensor(y);
    isOver = true;
    await Promise.all(streams);
    // Four times as long as one of the others, with a ninth of the time at least.
    expect(urgent).toBeLessThan(200);
    context.destroy();
  });

  test('what the more urgent waits for goes first as well', async () => {
    const { context, x, others: [busy, a, b, ...normal] } = await setUp(9, { numThreads: 1 });
    const [first, graph] = await Promise.all([buildSteps(context, 200), buildSteps(context, 20)]);
    const order = [];
    context.dispatch(first, { x }, { y: busy });
    context.dispatch(graph, { x }, { y: a }, { priority: 'low' });
    const ended = normal.map(async (y) => {
      context.dispatch(graph, { x }, { y });
      await context.readTensor(y);
      order.push('normal');
    });
    context.dispatch(graph, { x: a }, { y: b }, { priority: 'high' });
    ended.push(read(context, b).then((values) => order.push([...new Set(values)])));
    await Promise.all(ended);
    const high = order.findIndex((one) => one !== 'normal');
    expect(order[high]).toEqual([1]);
    expect(high).toBe(0);
    context.destroy();
  });

  test.each(['urgent', 1, null])('%p is none', async (priority) => {
    const [a, b, c] = await createTensors(held.context, 3);
    const graph = await buildAdder(held.context);
    expect(() => held.context.dispatch(graph, { a, b }, { c }, { priority })).toThrow(TypeError);
    await expect(held.context.readTensor(c, { priority })).rejects.toThrow('priority');
    await expect(ml.createContext({ priority })).rejects.toThrow('priority');
  });
});

describe('timeout', () => {
  test('drops what has not begun, and leaves what has', async () => {
    const { context, x, others: [y, z] } = await setUp(2, { numThreads: 1 });
    const long = await buildSteps(context, 3000);
    context.dispatch(long, { x }, { y }, { timeout: 60_000 });
    const views = () => [{ x: ones() }, { y: ones() }];
    const error = await caught(context.compute(long, ...views(), { timeout: 20, label: 'mine' }));
    expect(error).toMatchObject({ name: 'TimeoutError', message: 'compute [mine]: it had not begun after 20 ms (timeout)' });
    expect([error.inputs.x[7], error.outputs.y[7]]).toEqual([1, 1]);
    context.dispatch(long, { x: y }, { y: z }, { timeout: 20 });
    await expect(context.readTensor(z, { timeout: 10 })).rejects.toThrow('readTensor: it had not begun after 10 ms (timeout)');
    await expect(context.readTensor(z)).rejects.toMatchObject({ name: 'TimeoutError', message: expect.stringContaining('dispatch: it had not begun') });
    expect((await read(context, y))[5]).toBe(1);
    context.writeTensor(z, ones().fill(4));
    expect((await read(context, z))[5]).toBe(4);
    context.destroy();
  });

  test('of a context, and 0', async () => {
    const { context, x, others: [y] } = await setUp(1, { timeout: 0, priority: 'low' });
    const graph = await buildSteps(context, 2);
    context.dispatch(graph, { x }, { y });
    await expect(context.readTensor(y)).rejects.toEqual(named('TimeoutError'));
    context.dispatch(graph, { x }, { y }, { timeout: 60_000 });
    expect((await read(context, y))[0]).toBe(1);
    await expect(context.compute(graph, { x: ones() }, { y: ones() })).rejects.toEqual(named('TimeoutError'));
    context.destroy();
  });

  test.each([-1, NaN, 2 ** 32, 'soon'])('%p is none', async (timeout) => {
    const graph = await buildAdder(held.context);
    await expect(held.context.compute(graph, {}, {}, { timeout })).rejects.toThrow(TypeError);
  });
});

describe('maxQueue', () => {
  test('refuses what is too much, and says how much waits and for how long', async () => {
    const { context, x, others: [y] } = await setUp(1, { maxQueue: 3 });
    const long = await buildSteps(context, 300);
    const compute = () => context.compute(long, { x: ones() }, { y: ones() });
    context.dispatch(long, { x }, { y });
    const running = [compute(), compute()];
    await sleep(5);
    const error = await caught(compute());
    expect(error).toMatchObject({ name: 'QuotaExceededError', waiting: 3 });
    expect(error.message).toMatch(/^compute: found 3 unfinished runs of the context, the oldest since \d+ ms, allowed at most 3 \(maxQueue\)/);
    expect(error.waitingFor).toBeGreaterThan(1);
    expect(() => context.dispatch(long, { x }, { y })).toThrow(named('QuotaExceededError'));
    const order = [];
    const ready = [1, 2].map(async (number) => {
      await context.ready();
      order.push(number);
      return compute();
    });
    await Promise.all([...running, ...ready]);
    expect(order).toEqual([1, 2]);
    await context.readTensor(y);
    await context.ready();
    context.destroy();
  });

  test('whoever was told that there is room has it', async () => {
    const { context } = await setUp(0, { maxQueue: 2 });
    const short = await buildSteps(context, 1);
    const one = async () => {
      await context.ready();
      await context.compute(short, { x: ones() }, { y: ones() });
    };
    await Promise.all(Array.from({ length: 20 }, one));
    const client = async () => {
      for (let i = 0; i < 10; i++) await one();
    };
    await Promise.all(Array.from({ length: 8 }, client));
    context.destroy();
  });

  test('nobody waits behind one who needs no room, or for a context that is gone', async () => {
    const { context } = await setUp(0, { maxQueue: 1 });
    const long = await buildSteps(context, 100);
    const running = context.compute(long, { x: ones() }, { y: ones() });
    await Promise.all([running, ...Array.from({ length: 10 }, () => context.ready())]);
    const endless = caught(context.compute(await buildSteps(context, 3000), { x: ones() }, { y: ones() }));
    const waits = context.ready();
    context.destroy();
    await expect(waits).rejects.toEqual(named('InvalidStateError'));
    await expect(context.ready()).rejects.toEqual(named('InvalidStateError'));
    await endless;
    await expect(ml.createContext({ maxQueue: 0 })).rejects.toThrow('allowed a whole number from 1');
    await expect(held.context.ready()).resolves.toBeUndefined();
  });
});

describe('models', () => {
  const bytes = writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['rows', SIZE] }],
    outputs: [{ name: 'y', type: 'float', shape: ['rows', SIZE] }],
    nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
  });
  const rows = (count, value) => ({ x: { data: new Float32Array(count * SIZE).fill(value), shape: [count, SIZE] } });

  test('run() takes both, and a run that waits for its plan or for others is overdue, too', async () => {
    const { context, x, others: [y] } = await setUp(1);
    const long = await buildSteps(context, 2000);
    const model = await loadOnnx(context, bytes);
    const joined = await loadOnnx(context, bytes, { batching: true });
    await model.run(rows(1, 1), { priority: 'high', timeout: 10_000 });
    await joined.run(rows(1, 1));
    context.dispatch(long, { x }, { y });
    await expect(model.run(rows(3, 1), { timeout: 0 })).rejects.toEqual(named('TimeoutError'));
    const results = await Promise.allSettled([
      joined.run(rows(2, 1)),
      joined.run(rows(1, 2), { timeout: 0 }),
      joined.run(rows(1, 3), { priority: 'low' }),
      joined.run(rows(1, 4), { priority: 'high' }),
    ]);
    expect(results.map(({ value, reason }) => value?.y.data[0] ?? reason.name)).toEqual([1, 'TimeoutError', 3, 4]);
    await expect(model.run(rows(1, 1), { priority: 'none' })).rejects.toThrow("options: priority: found 'none', allowed 'high', 'normal' or 'low'");
    await expect(model.run(rows(1, 1), { timeout: -1 })).rejects.toThrow('options: timeout: found -1');
    context.destroy();
  });

  test('their runs count', async () => {
    const { context } = await setUp(0, { maxQueue: 2 });
    const model = await loadOnnx(context, bytes);
    const results = await Promise.allSettled([1, 2, 3].map((value) => model.run(rows(1, value))));
    expect(results.map(({ value, reason }) => value?.y.data[0] ?? reason.name)).toEqual([1, 2, 'QuotaExceededError']);
    await model.run(rows(1, 1));
    context.destroy();
  });
});

describe('sessions of webnn-node/onnxruntime', () => {
  const PRODUCTS = 20;
  const names = Array.from({ length: PRODUCTS + 1 }, (_, i) => `v${i}`);
  const identity = new Float32Array(SIZE * SIZE);
  for (let i = 0; i < SIZE; i++) identity[i * (SIZE + 1)] = 1;
  const bytes = writeModel({
    opset: 17,
    inputs: [{ name: names[0], type: 'float', shape: [SIZE, SIZE] }],
    outputs: [{ name: names[PRODUCTS], type: 'float', shape: [SIZE, SIZE] }],
    initializers: [tensor('one', 'float', [SIZE, SIZE], identity)],
    nodes: names.slice(1).map((name, i) => ({ op: 'MatMul', inputs: [names[i], 'one'], outputs: [name] })),
  });
  const feeds = (value) => ({ [names[0]]: new Tensor('float32', ones().fill(value), [SIZE, SIZE]) });
  const result = async (run) => (await run)[names[PRODUCTS]].data[0];

  test('run() takes both, instead of what the context says', async () => {
    const { context, x, others: [y] } = await setUp(1, { numThreads: 1, priority: 'low', timeout: 60_000 });
    const long = await buildSteps(context, 200);
    const session = await InferenceSession.create(bytes, { executionProviders: [{ name: 'webnn', context }] });
    const order = [];
    context.dispatch(long, { x }, { y }, { priority: 'normal' });
    const of = async (value, options) => {
      expect(await result(session.run(feeds(value), options))).toBe(value);
      order.push(value);
    };
    const overdue = caught(session.run(feeds(7), { timeout: 0 }));
    await Promise.all([of(1), of(2, { priority: 'normal' }), of(3, { tag: 'urgent', priority: 'high' }), of(4, { priority: 'low', timeout: 50_000 })]);
    expect(order).toEqual([3, 2, 1, 4]);
    expect(await overdue).toMatchObject({ name: 'TimeoutError', message: expect.stringContaining('it had not begun after 0 ms (timeout)') });
    await session.release();
    context.destroy();
  });

  test.each([
    [{ priority: 'urgent' }, "runOptions.priority must be 'high', 'normal' or 'low', found 'urgent'"],
    [{ priority: null }, 'runOptions.priority must be'],
    [{ timeout: -1 }, 'runOptions.timeout must be a number of milliseconds from 0, found -1'],
    [{ timeout: '5' }, 'runOptions.timeout must be'],
  ])('%p is refused', async (options, message) => {
    const session = await InferenceSession.create(bytes);
    const error = await caught(session.run(feeds(1), options));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(message);
    await session.release();
  });
});

describe('generate()', () => {
  const prompt = Array.from({ length: 12 }, (_, i) => i % TOKENS);

  async function all(...given) {
    const found = [];
    for await (const token of generate(...given)) found.push(token.id);
    return found;
  }

  test('takes both, and counts', async () => {
    const { context } = await setUp(0, { maxQueue: 2 });
    const model = await loadOnnx(context, decoder(KINDS[0]));
    const expected = await all(model, prompt, { maxNewTokens: 8 });
    const results = await Promise.allSettled([
      all(model, prompt, { maxNewTokens: 8, priority: 'low' }),
      all(model, prompt, { maxNewTokens: 8, priority: 'high', timeout: 60_000 }),
      all(model, prompt, { maxNewTokens: 8 }),
    ]);
    expect(results.map(({ value, reason }) => value ?? reason.name)).toEqual([expected, expected, 'QuotaExceededError']);
    await expect(all(model, prompt, { timeout: 0 })).rejects.toEqual(named('TimeoutError'));
    expect(await all(model, prompt, { maxNewTokens: 8 })).toEqual(expected);
    expect(() => generate(model, prompt, { priority: 'now' })).toThrow("options: priority: found 'now'");
    expect(() => generate(model, prompt, { timeout: -1 })).toThrow('options: timeout: found -1');
    context.destroy();
  });

  test('takes its place when its first token is asked for, before it waits for anything', async () => {
    const { context, x, others: [y] } = await setUp(1, { maxQueue: 1 });
    const model = await loadOnnx(context, decoder(KINDS[0]));
    const short = await buildSteps(context, 1);
    const first = generate(model, prompt, { maxNewTokens: 8 });
    const second = generate(model, prompt, { maxNewTokens: 8 });
    // Nobody has asked for a token of them yet.
    await context.compute(short, { x: ones() }, { y: ones() });
    const ends = [];
    const found = first.next().then(({ value }) => ends.push(value.sequence));
    expect(() => context.dispatch(short, { x }, { y })).toThrow(named('QuotaExceededError'));
    const refused = caught(second.next()).then(({ name }) => ends.push(name));
    await Promise.all([found, refused]);
    expect(ends).toEqual(['QuotaExceededError', 0]);
    await first.return();
    await context.compute(short, { x: ones() }, { y: ones() });
    context.destroy();
  });

  test('leaves its place when it fails before its first token', async () => {
    const { context } = await setUp(0, { maxQueue: 1 });
    const model = await loadOnnx(context, decoder(KINDS[0]));
    const begin = () => {
      throw new Error('no such grammar');
    };
    await expect(all(model, prompt, { constraint: { begin } })).rejects.toThrow('no such grammar');
    expect((await all(model, prompt, { maxNewTokens: 8 })).length).toBe(8);
    context.destroy();
  });

  test('has its encoder run in its own place', async () => {
    const { context } = await setUp(0, { maxQueue: 1 });
    const [model, states] = await Promise.all([merged('whisper'), encoder('whisper')].map((one) => loadOnnx(context, one)));
    const inputs = { input_features: { data: new Float32Array(FEATURES * 5).fill(1), shape: [1, FEATURES, 5] } };
    const call = () => all(model, prompt, { maxNewTokens: 8, encoder: { model: states, inputs } });
    const [found, refused] = await Promise.allSettled([call(), call()]);
    expect(found.value).toHaveLength(8);
    expect(refused.reason).toEqual(named('QuotaExceededError'));
    context.destroy();
  });

  test('has the models of its features run in its own place', async () => {
    const { context } = await setUp(0, { maxQueue: 1 });
    const [width, image] = [64, TOKENS - 1];
    const made = parts(decoder(KINDS[0]), []);
    const [model, embed, vision] = await Promise.all([made.decoder, made.embed, visionEncoder(width)].map((one) => loadOnnx(context, one)));
    // Both images are looked at at once, in the place of the generation.
    const features = [1, 2].map((seed) => ({ token: image, model: vision, inputs: { pixel_values: picture(seed, width).pixels } }));
    const ids = [3, ...new Array(2 * PATCHES).fill(image), 5];
    const call = () => all(model, ids, { maxNewTokens: 8, bias: { [image]: -Infinity }, embed, features });
    const [found, refused] = await Promise.allSettled([call(), call()]);
    expect(found.value).toHaveLength(8);
    expect(refused.reason).toEqual(named('QuotaExceededError'));
    // Nobody has left a place behind.
    expect(await call()).toEqual(found.value);
    context.destroy();
  });
});

describe('random programs read what a sequential model reads', () => {
  const TENSORS = 6;
  const MOST = 1000;

  /** `c = min(a + b, MOST)`, with so many products with the identity in between. */
  async function build(context, products) {
    const builder = new MLGraphBuilder(context);
    const identity = new Float32Array(SIZE * SIZE);
    for (let i = 0; i < SIZE; i++) identity[i * (SIZE + 1)] = 1;
    const one = builder.constant(square, identity);
    let c = builder.add(builder.input('a', square), builder.input('b', square));
    for (let i = 0; i < products; i++) c = builder.matmul(c, one);
    return builder.build({ c: builder.min(c, builder.constant('float32', MOST)) });
  }

  function generator(seed) {
    let state = BigInt(seed);
    return (below) => {
      state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
      return Number((state >> 33n) % BigInt(below));
    };
  }

  const first = Number(process.env.WEBNN_SEED ?? 20_261_129);
  test.each([0, 1, 2])('seed plus %d', async (number) => {
    const seed = first + number;
    console.log(`seed ${seed} (WEBNN_SEED)`);
    const random = generator(seed);
    const { context } = await setUp(0, [{}, { priority: 'low' }, { numThreads: 1 }][number]);
    const graphs = await Promise.all([0, 1, 6].map((products) => build(context, products)));
    const tensors = await createTensors(context, TENSORS, square);
    let versions = 0;
    // Nothing for what fails in any case; what may have been dropped may have failed.
    const model = tensors.map(() => ({ value: 0, mayFail: false, version: versions++ }));
    const controllers = [];
    const reads = [];
    const schedule = () => {
      const options = {};
      if (random(3) > 0) options.priority = ['high', 'normal', 'low'][random(3)];
      if (random(6) === 0) options.timeout = random(20);
      if (random(4) === 0) {
        const controller = new AbortController();
        controllers.push(controller);
        options.signal = controller.signal;
      }
      return options;
    };
    const mayBeDropped = ({ timeout, signal }) => timeout !== undefined || signal !== undefined;
    for (let step = 0; step < 400; step++) {
      if (controllers.length > 0 && random(6) === 0) controllers.splice(random(controllers.length), 1)[0].abort(new Error('dropped'));
      if (random(40) === 0) await sleep(random(10));
      switch (random(6)) {
        case 0: {
          const [i, value] = [random(TENSORS), random(100)];
          context.writeTensor(tensors[i], ones().fill(value));
          model[i] = { value, mayFail: false, version: versions++ };
          break;
        }
        case 1:
        case 2:
        case 3: {
          const a = random(TENSORS);
          const b = (a + 1 + random(TENSORS - 1)) % TENSORS;
          const c = [...tensors.keys()].filter((i) => i !== a && i !== b)[random(TENSORS - 2)];
          const options = schedule();
          context.dispatch(graphs[random(3)], { a: tensors[a], b: tensors[b] }, { c: tensors[c] }, options);
          const mayFail = mayBeDropped(options) || model[a].mayFail || model[b].mayFail;
          model[c] = { value: Math.min(model[a].value + model[b].value, MOST), mayFail, version: versions++ };
          break;
        }
        default: {
          const i = random(TENSORS);
          const options = schedule();
          const expected = { ...model[i], isOwn: mayBeDropped(options), step };
          const reading = Object.keys(options).length > 0 ? context.readTensor(tensors[i], options) : context.readTensor(tensors[i]);
          reads.push(reading.then((buffer) => ({ ...expected, found: new Float32Array(buffer) }), (error) => ({ ...expected, error })));
        }
      }
    }
    const byVersion = new Map();
    for (const { step, value, mayFail, version, isOwn, found, error } of await Promise.all(reads)) {
      const what = `seed ${seed}, step ${step}`;
      if (error !== undefined && !mayFail && !isOwn) throw new Error(what, { cause: error });
      if (found?.some((element) => element !== value)) throw new Error(`${what}: found ${found.find((element) => element !== value)}, expected ${value}`);
      // Nothing changes between two writes.
      if (isOwn) continue;
      const before = byVersion.get(version);
      if (before !== undefined && before !== (error === undefined)) throw new Error(`${what}: it changed`);
      byVersion.set(version, error === undefined);
    }
    expect(byVersion.size).toBeGreaterThan(10);
    context.destroy();
  });
});
