'use strict';

// Texts of different lengths that are run as one, against the same texts alone.

const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const ort = require('webnn-node/onnxruntime');
const { encoder, texts } = require('./encoders.js');
const { tensor, writeModel } = require('./write.js');

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterAll(() => context.destroy());

const loaded = [];
async function load(model, batching = { maxSize: 8 }, options = {}) {
  const one = await loadOnnx(context, model, { batching, ...options });
  loaded.push(one);
  return one;
}
afterEach(() => {
  for (const model of loaded.splice(0)) model.destroy();
});

const AXES = { input_ids: 1, attention_mask: 1 };

/** Sums of some dozens of products, in another order, layer by layer. */
const NEAR = { float32: 2e-5, float16: 2e-2 };

function expectNear(found, expected, text) {
  expect([text, found.shape, found.dataType]).toEqual([text, expected.shape, expected.dataType]);
  const isHalf = found.data instanceof Uint16Array;
  const number = (bits) => (isHalf ? (bits & 0x8000 ? -1 : 1) * (bits & 0x7c00 ? 2 ** (((bits >> 10) & 31) - 15) * (1 + (bits & 1023) / 1024) : (bits & 1023) * 2 ** -24) : bits);
  let worst = 0;
  for (let i = 0; i < expected.data.length; i++) {
    const [one, other] = [number(found.data[i]), number(expected.data[i])];
    // Where a text is nothing but padding, both may be NaN.
    if (Number.isNaN(other)) expect([text, one]).toEqual([text, NaN]);
    else worst = Math.max(worst, Math.abs(one - other) / Math.max(1, Math.abs(other)));
  }
  expect(worst).toBeLessThan(NEAR[found.dataType]);
}

/** Runs texts at once, and each alone. */
async function compare(model, alone, inputs, options = []) {
  const found = await Promise.all(inputs.map((input, i) => model.run(input, options[i])));
  for (const [i, input] of inputs.entries()) expectNear(found[i].y, (await alone.run(input)).y, i);
  return found;
}

const LENGTHS = [5, 9, 7, 12, 3, 8, 11, 6, 10, 4, 2, 14];

const ways = [
  ['a mask of the lowest number', {}],
  ['a mask of -10,000', { mask: 'ten thousand', end: 'first' }],
  ['a mask of minus infinity for each query', { mask: 'infinite', isWhole: true }],
  ['a mask of the lowest number for each query', { mask: 'expanded', end: 'mean' }],
  ['a mean over the mask, as sentence-transformers writes it', { end: 'mean', types: true }],
  ['a mask that hides little', { mask: 'weak' }],
  ['no mask', { mask: 'none', end: 'first' }],
  ['an input that has the name of a mask and does nothing', { mask: 'named only' }],
  ['int32', { ids: 'int32', types: true, end: 'first' }],
  ['float16', { type: 'float16', end: 'mean' }],
  ["onnxruntime's operators", { isFused: true, end: 'first' }],
  ['places that are counted, as RoBERTa has them', { places: 'counted', end: 'mean' }],
];

describe('texts of different lengths are run as one', () => {
  test.each(ways)('with %s', async (_, options) => {
    const bytes = encoder(options);
    const [model, alone] = [await load(bytes), await load(bytes, undefined)];
    const { axes, lengths } = model.batching;
    const names = Object.fromEntries(model.inputs.map(({ name }) => [name, 0]));
    expect([axes, lengths.refused]).toEqual([names, []]);
    expect(lengths.axes).toEqual({ ...AXES, ...(options.types ? { token_type_ids: 1 } : {}) });
    // A text of the caller may have padding of its own.
    const own = (seed) => (seed % 3 === 0 ? (_row, place) => (place === 1 ? 0 : 1) : undefined);
    const inputs = LENGTHS.map((length, seed) => texts(model.inputs, 1, length, seed, own(seed)));
    await compare(model, alone, inputs);
    expect(model.batching.filled).toBeGreaterThan(7);
    expect(model.batching.runs).toBeLessThan(6);
  });

  test('with several rows, masks of nothing, and empty texts', async () => {
    for (const mask of ['minimum', 'infinite', 'expanded']) {
      const bytes = encoder({ mask, end: 'mean' });
      const [model, alone] = [await load(bytes, { maxSize: 16 }), await load(bytes, undefined)];
      const inputs = [
        texts(model.inputs, 1, 4, 0),
        texts(model.inputs, 2, 9, 1),
        texts(model.inputs, 1, 7, 2, () => 0),
        texts(model.inputs, 3, 5, 3, (row) => (row === 1 ? 0 : 1)),
        texts(model.inputs, 1, 8, 4, (_row, place) => (place > 2 ? 1 : 0)),
        texts(model.inputs, 1, 1, 5),
        texts(model.inputs, 1, 6, 6),
      ];
      await compare(model, alone, inputs);
      expect(model.batching.filled).toBeGreaterThan(3);
      const [first, empty, other] = await Promise.allSettled([
        model.run(texts(model.inputs, 1, 4, 0)),
        model.run(texts(model.inputs, 1, 0, 1)),
        model.run(texts(model.inputs, 1, 6, 2)),
      ]);
      expect([first.status, other.status]).toEqual(['fulfilled', 'fulfilled']);
      expect(empty.status).toBe((await Promise.allSettled([alone.run(texts(alone.inputs, 1, 0, 1))]))[0].status);
    }
  });

  test('as random programs have them', async () => {
    const bytes = encoder({ end: 'tokens', layers: 1 });
    const [model, alone] = [await load(bytes, { maxSize: 16, maxElements: 200 }), await load(bytes, undefined)];
    let state = 12345;
    const draw = (most) => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return Math.floor((state / 2 ** 32) * most);
    };
    for (let round = 0; round < 6; round++) {
      const inputs = Array.from({ length: 1 + draw(24) }, (_, i) => texts(model.inputs, 1 + (draw(4) === 0 ? 1 : 0), 1 + draw(draw(2) === 0 ? 12 : 70), 100 * round + i));
      const signals = inputs.map(() => (draw(5) === 0 ? new AbortController() : undefined));
      const running = inputs.map((input, i) => model.run(input, { signal: signals[i]?.signal, priority: ['high', 'normal', 'low'][draw(3)] }));
      for (const [i, controller] of signals.entries()) if (controller !== undefined && i % 2 === 0) controller.abort(new Error(`not wanted ${i}`));
      const settled = await Promise.allSettled(running);
      for (const [i, { status, value, reason }] of settled.entries()) {
        if (status === 'fulfilled') expectNear(value.y, (await alone.run(inputs[i])).y, `${round} ${i}`);
        else expect([signals[i] !== undefined, reason.message]).toEqual([true, `not wanted ${i}`]);
      }
    }
    expect(model.batching.filled).toBeGreaterThan(10);
  });

  test('within the bound of products', async () => {
    const [depth, columns] = [67, 9];
    const w = Float32Array.from({ length: depth * columns }, (_, i) => Math.sin(i * 1.3));
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: ['batch', 'length', depth] }],
      outputs: [{ name: 'y' }],
      initializers: [tensor('w', 'float', [depth, columns], w)],
      nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    });
    const [model, alone] = [await load(bytes), await load(bytes, undefined)];
    const inputs = LENGTHS.map((length, seed) => ({ x: { data: Float32Array.from({ length: length * depth }, (_, i) => Math.cos(i * 0.37 + seed)), shape: [1, length, depth] } }));
    const found = await Promise.all(inputs.map((input) => model.run(input)));
    expect(model.batching.filled).toBeGreaterThan(7);
    for (const [text, { x }] of inputs.entries()) {
      const { y } = await alone.run({ x });
      for (const [at, value] of y.data.entries()) {
        const row = Math.floor(at / columns) * depth;
        let size = 0;
        for (let k = 0; k < depth; k++) size += Math.abs(x.data[row + k] * w[k * columns + (at % columns)]);
        expect(Math.abs(found[text].y.data[at] - value)).toBeLessThanOrEqual(depth * 2 ** -23 * size);
      }
    }
  });

  test('if the model takes no longer ones, without rounding', async () => {
    // A table of 9 places: no text is filled up to 16.
    const table = tensor('table', 'float', [9, 2], Float32Array.from({ length: 18 }, (_, i) => i));
    const ends = [0, 1].map((value, i) => tensor(`c${i}`, 'int64', [1], BigInt64Array.of(BigInt(value))));
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'x', type: 'float', shape: ['batch', 'length', 2] }],
      outputs: [{ name: 'y' }],
      initializers: [table, ...ends],
      nodes: [
        { op: 'Shape', inputs: ['x'], outputs: ['length'], attributes: { start: 1, end: 2 } },
        { op: 'Slice', inputs: ['table', 'c0', 'length', 'c0'], outputs: ['places'] },
        { op: 'Add', inputs: ['x', 'places'], outputs: ['y'] },
      ],
    });
    const model = await load(bytes);
    const input = (length) => ({ x: { data: new Float32Array(2 * length).fill(length), shape: [1, length, 2] } });
    for (let round = 0; round < 2; round++) {
      const found = await Promise.all([3, 9, 8, 7, 9].map((length) => model.run(input(length))));
      for (const [i, length] of [3, 9, 8, 7, 9].entries()) expect([...found[i].y.data]).toEqual(Array.from({ length: 2 * length }, (_, at) => length + at));
    }
    expect(model.batching.filled).toBeGreaterThan(3);
  });

  test('into the arrays of their callers, and with the outputs that each wants', async () => {
    const model = await load(encoder());
    const into = new Float32Array(5 * 8);
    const [, y, none, wrong] = await Promise.allSettled([
      model.run(texts(model.inputs, 1, 4, 0)),
      model.run(texts(model.inputs, 1, 5, 1), { outputs: { y: into } }),
      model.run(texts(model.inputs, 1, 7, 2), { outputs: ['y'] }),
      model.run(texts(model.inputs, 1, 6, 3), { outputs: { y: new Float32Array(8 * 8) } }),
    ]);
    expect(y.value.y.data).toBe(into);
    expect(y.value.y.shape).toEqual([1, 5, 8]);
    expect(none.value.y.shape).toEqual([1, 7, 8]);
    expect(wrong.reason.message).toMatch(/found an array of 64 elements, allowed 48/);
    // A power of two goes together.
    expect(model.batching.filled).toBe(2);
  });

  test('and one that fails does not touch the others', async () => {
    const bytes = encoder({ end: 'mean' });
    const [model, alone] = [await load(bytes), await load(bytes, undefined)];
    const inputs = LENGTHS.map((length, seed) => texts(model.inputs, 1, length, seed));
    inputs[4].input_ids.data[1] = 999n;
    const settled = await Promise.allSettled(inputs.map((input) => model.run(input)));
    for (const [i, { status, value, reason }] of settled.entries()) {
      if (i === 4) expect(reason.message).toMatch(/999/);
      else expect([i, status]).toEqual([i, 'fulfilled']);
      if (status === 'fulfilled') expectNear(value.y, (await alone.run(inputs[i])).y, i);
    }
  });

  test('of sessions of onnxruntime', async () => {
    const session = await ort.InferenceSession.create(encoder({ end: 'first' }), { batching: true });
    const feeds = (length, seed) => {
      const given = texts([{ name: 'input_ids', dataType: 'int64' }, { name: 'attention_mask', dataType: 'int64' }], 1, length, seed);
      return Object.fromEntries(Object.entries(given).map(([name, { data, shape }]) => [name, new ort.Tensor('int64', data, shape)]));
    };
    const found = await Promise.all(LENGTHS.map((length, seed) => session.run(feeds(length, seed))));
    expect(session.batching.filled).toBeGreaterThan(7);
    for (const [seed, length] of LENGTHS.entries()) expectNear({ ...found[seed].y, shape: found[seed].y.dims, data: found[seed].y.data, dataType: 'float32' }, { shape: [1, 8], dataType: 'float32', data: (await session.run(feeds(length, seed))).y.data }, seed);
    await session.release();
  });

  test('only where that costs little, and within the limit of elements', async () => {
    const bytes = encoder({ layers: 1 });
    const far = await load(bytes);
    // The first one goes alone. Of the others those that are near to each other go together.
    await Promise.all([3, 4, 70, 5, 72, 3].map((length, seed) => far.run(texts(far.inputs, 1, length, seed))));
    expect(far.batching).toMatchObject({ requests: 6, runs: 4, joined: 4, filled: 4 });
    const small = await load(bytes, { maxSize: 8, maxElements: 16 });
    await Promise.all([8, 7, 6, 5, 4].map((length, seed) => small.run(texts(small.inputs, 1, length, seed))));
    expect(small.batching).toMatchObject({ runs: 3, joined: 4, filled: 4 });
    // Those of one length need nothing after their ends.
    const same = await load(bytes);
    await Promise.all([7, 7, 7, 7, 7].map((length, seed) => same.run(texts(same.inputs, 1, length, seed))));
    expect(same.batching).toMatchObject({ runs: 2, joined: 4, filled: 0 });
  });
});

describe('models that see what is behind the end of a text join those of one length', () => {
  test.each([
    ['plain mean', /^ReduceMean/, 'reduceMean'],
    ['greatest', /^ReduceMax/, 'reduceMax'],
    ['last', /^Gather/, 'gather'],
    ['convolution', /^Conv/, 'conv2d'],
    ['normalized text', /^ReduceMean/, 'reduceMean'],
  ])('%s', async (end, node, operator) => {
    const bytes = encoder({ end });
    const [model, alone] = [await load(bytes), await load(bytes, undefined)];
    const { lengths } = model.batching;
    expect(lengths.axes).toEqual({});
    expect(lengths.refused).toEqual([{ node: expect.stringMatching(node), operator, reason: expect.any(String) }]);
    await compare(model, alone, [5, 7, 5, 7, 5, 7, 5].map((length, seed) => texts(model.inputs, 1, length, seed)));
    expect(model.batching).toMatchObject({ filled: 0 });
    expect(model.batching.joined).toBeGreaterThan(3);
  });

  test.each(['reversed', 'places from the end'])('%s', async (end) => {
    const bytes = encoder({ end });
    const [model, alone] = [await load(bytes), await load(bytes, undefined)];
    expect([model.batching.lengths.axes, model.batching.lengths.refused.length]).toEqual([{}, 1]);
    await compare(model, alone, [5, 7, 5, 7, 5, 7, 5].map((length, seed) => texts(model.inputs, 1, length, seed)));
    expect(model.batching.filled).toBe(0);
  });

  test('a token of 0 that is none', async () => {
    const table = tensor('table', 'float', [4, 2], Float32Array.from({ length: 8 }, (_, i) => i));
    const model = await load(
      writeModel({
        opset: 17,
        inputs: [{ name: 'ids', type: 'int64', shape: ['batch', 'length'] }],
        outputs: [{ name: 'y' }],
        initializers: [table, tensor('five', 'int64', [], BigInt64Array.of(5n))],
        nodes: [{ op: 'Sub', inputs: ['ids', 'five'], outputs: ['less'] }, { op: 'Gather', name: 'look up', inputs: ['table', 'less'], outputs: ['y'] }],
      }),
    );
    expect(model.batching.lengths).toEqual({ axes: {}, refused: [{ node: 'look up', operator: 'checkIndices', reason: expect.stringMatching(/out of range/) }] });
  });
});
