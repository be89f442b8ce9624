'use strict';

// Indices outside an axis: ONNX calls them an error, where WebNN's own operators clamp. A run fails with the node, the index and what is
// allowed, and the model runs on.

const { loadOnnx } = require('webnn-node/onnx');
const { generate } = require('webnn-node/generate');
const { InferenceSession, Tensor } = require('../../lib/onnxruntime.js');
const { LONGEST, TOKENS, decoder } = require('../generate/decoders.js');
const { withContexts } = require('./contexts.js');
const { tensor, writeModel } = require('./write.js');

const contexts = {};
withContexts((cpu, gpu) => Object.assign(contexts, { cpu, gpu }));

const count = (shape) => shape.reduce((product, size) => product * size, 1);
const ramp = (shape, start = 0) => Float32Array.from({ length: count(shape) }, (_, i) => i + start);
const f = (shape) => ({ type: 'float', shape, array: ramp(shape, 1) });
const bytes = (shape) => ({ type: 'uint8', shape, array: Uint8Array.from({ length: count(shape) }, (_, i) => i) });
const ARRAYS = { int32: Int32Array, int64: BigInt64Array };
const indicesOf = (type, values) => ARRAYS[type].from(values, type === 'int64' ? BigInt : Number);

/** The input again, in ways that no rule knows to be none. */
const SUM = [
  { op: 'Add', inputs: ['i', 'one'], outputs: ['more'] },
  { op: 'Sub', inputs: ['more', 'one'], outputs: ['sum'] },
];

/**
 * A node whose input `at` is indices that a run gives, or that the model has.
 * @param {object} item
 * @param {{type: string, array: ArrayBufferView}} [known]
 */
function modelOf({ op, domain = '', opset = 17, attributes = {}, type = 'int64', shape, inputs, outputs = 1, nodes, isComputed }, known) {
  const names = inputs.map((input, i) => (input === 'i' ? (isComputed ? 'sum' : 'i') : input === null ? '' : `c${i}`));
  const initializers = inputs.flatMap((input, i) => (typeof input === 'object' && input !== null ? [tensor(`c${i}`, input.type, input.shape, input.array)] : []));
  if (known !== undefined) initializers.push(tensor('i', type, shape, known));
  if (isComputed) initializers.push(tensor('one', type, [], indicesOf(type, [1])));
  const made = Array.from({ length: outputs }, (_, i) => `o${i}`);
  const node = { op, domain, name: 'embed', inputs: names, outputs: made, attributes };
  return writeModel({
    opset,
    inputs: known === undefined ? [{ name: 'i', type, shape }] : [],
    outputs: made.map((name) => ({ name })),
    initializers,
    nodes: nodes ?? (isComputed ? [...SUM, node] : [node]),
  });
}

const ends = { shape: [2], fits: [5, -6], wrong: [[6, 0], [0, -7], [1, 9000]], allowed: '-6 to 5' };
const places = { fits: [5, 0], wrong: [[6, 0], [0, -1], [1, 9000]], allowed: '0 to 5' };
const wide = [[1, 2 ** 40], [2 ** 32, 0], [0, -(2 ** 40)]];
const table = f([6, 4]);
const microsoft = { domain: 'com.microsoft' };
const rotary = { shape: [1, 2], ...places, type: 'int64' };
const angles = [f([6, 2]), f([6, 2])];
const embedding = [f([6, 4]), f([6, 4]), null, f([4]), f([4])];
const ints = (...list) => ({ type: 'int32', shape: [list.length], array: Int32Array.from(list) });
/** Three tokens of one sequence after `past` others; four pages of four keys, two of which the sequence may have. */
const pages = (past, ...rest) => [f([3, 16]), f([3, 8]), f([3, 8]), f([4, 4, 1, 8]), f([4, 4, 1, 8]), ints(0, 3), past, ...rest];
const pageTable = { type: 'int32', shape: [1, 2], array: Int32Array.of(2, 0) };
const paged = { op: 'PagedAttention', ...microsoft, type: 'int32', outputs: 3, attributes: { num_heads: 2, kv_num_heads: 1 } };

const CASES = [
  { op: 'Gather', ...ends, wrong: [...ends.wrong, ...wide], inputs: [table, 'i'] },
  { op: 'Gather', ...ends, type: 'int32', inputs: [table, 'i'] },
  { op: 'Gather', ...ends, attributes: { axis: 1 }, inputs: [f([2, 6]), 'i'] },
  { op: 'Gather', shape: [], fits: [5], wrong: [[6]], allowed: '-6 to 5', inputs: [table, 'i'] },
  { op: 'GatherElements', ...ends, wrong: [...ends.wrong, ...wide], shape: [1, 2], inputs: [table, 'i'] },
  { op: 'GatherElements', ...ends, shape: [2, 1], type: 'int32', attributes: { axis: 1 }, inputs: [f([2, 6]), 'i'] },
  { op: 'GatherND', ...ends, wrong: [...ends.wrong, ...wide], shape: [2, 1], inputs: [table, 'i'] },
  { op: 'GatherND', shape: [1, 2], fits: [5, -4], wrong: [[0, 4]], allowed: '-4 to 3', inputs: [table, 'i'] },
  { op: 'GatherND', shape: [1, 2], fits: [-6, 3], wrong: [[-7, 0]], allowed: '-6 to 5', inputs: [table, 'i'] },
  { op: 'GatherND', ...ends, shape: [2, 1], attributes: { batch_dims: 1 }, inputs: [f([2, 6, 3]), 'i'] },
  { op: 'GatherND', ...microsoft, ...ends, shape: [2, 1], inputs: [table, 'i'] },
  { op: 'ScatterND', ...ends, wrong: [...ends.wrong, ...wide], shape: [2, 1], inputs: [table, 'i', f([2, 4])] },
  { op: 'ScatterElements', ...ends, shape: [1, 2], inputs: [table, 'i', f([1, 2])] },
  { op: 'ScatterElements', ...ends, shape: [1, 2], type: 'int32', inputs: [f([6, 2]), 'i', f([1, 2])] },
  { op: 'Scatter', opset: 10, ...ends, shape: [1, 2], inputs: [table, 'i', f([1, 2])] },
  ...['add', 'mul', 'max', 'min'].flatMap((reduction) => [
    { op: 'ScatterND', opset: 18, ...ends, shape: [2, 1], attributes: { reduction }, inputs: [table, 'i', f([2, 4])] },
    { op: 'ScatterElements', opset: 18, ...ends, shape: [1, 2], attributes: { reduction }, inputs: [table, 'i', f([1, 2])] },
  ]),
  { op: 'TensorScatter', opset: 24, shape: [2], fits: [4, 0], wrong: [[5, 0], [0, -1]], found: [6, -1], allowed: '0 to 5', inputs: [f([2, 1, 6, 3]), f([2, 1, 2, 3]), 'i'] },
  { op: 'ReverseSequence', ...places, shape: [2], fits: [5, 0], wrong: [[6, 0], [0, -1]], inputs: [f([5, 2]), 'i'] },
  { op: 'MaxUnpool', shape: [1, 1, 1, 2], fits: [3, 0], wrong: [[4, 0], [0, -1]], allowed: '0 to 3', attributes: { kernel_shape: [1, 2], strides: [1, 2] }, inputs: [f([1, 1, 1, 2]), 'i'] },
  { op: 'GRU', shape: [2], type: 'int32', fits: [3, 1], wrong: [[4, 1], [0, -1]], allowed: '0 to 3', attributes: { hidden_size: 2 }, inputs: [f([3, 2, 2]), f([1, 6, 2]), f([1, 6, 2]), null, 'i'] },
  { op: 'RotaryEmbedding', opset: 23, ...rotary, inputs: [f([1, 1, 2, 4]), ...angles, 'i'] },
  { op: 'RotaryEmbedding', ...microsoft, ...rotary, inputs: [f([1, 1, 2, 4]), 'i', ...angles] },
  { op: 'RotaryEmbedding', ...microsoft, shape: [1], fits: [4], wrong: [[5], [-1]], found: [6, -1], allowed: '0 to 5', inputs: [f([1, 1, 2, 4]), 'i', ...angles] },
  { op: 'GatherBlockQuantized', ...microsoft, ...ends, attributes: { bits: 8, block_size: 16, gather_axis: 0, quantize_axis: 1 }, inputs: [bytes([6, 16]), 'i', f([6, 1])] },
  { ...paged, shape: [1, 2], fits: [3, 0], wrong: [[4, 0], [0, 9]], allowed: '-4 to 3', inputs: pages(ints(2), 'i') },
  // Of an entry that no key is in nobody asks.
  { ...paged, shape: [1, 2], fits: [3, 900], wrong: [[4, 0]], allowed: '-4 to 3', inputs: pages(ints(0), 'i') },
  { ...paged, shape: [1], fits: [5], wrong: [[6], [-1]], found: [9, -1], allowed: '0 to 8', inputs: pages('i', pageTable) },
  { ...paged, shape: [2], fits: [0, 3], wrong: [[0, 4]], allowed: '0 to 3', inputs: [...pages(ints(2), pageTable).slice(0, 5), 'i', ints(2), pageTable] },
  { ...paged, shape: [3], fits: [15, -1, 0], wrong: [[15, 16, 0]], allowed: '-16 to 15', inputs: pages(ints(2), pageTable, null, null, 'i') },
  { ...paged, shape: [1], fits: [2], wrong: [[3]], found: [5], allowed: '0 to 4', attributes: { ...paged.attributes, do_rotary: 1 }, inputs: pages('i', pageTable, f([5, 4]), f([5, 4])) },
  { op: 'EmbedLayerNormalization', ...microsoft, ...places, type: 'int32', shape: [1, 2], outputs: 2, inputs: ['i', null, ...embedding] },
  { op: 'ArrayFeatureExtractor', domain: 'ai.onnx.ml', ...places, shape: [2], inputs: [f([2, 6]), 'i'] },
];

const titleOf = ({ op, domain = '', attributes = {}, type = 'int64', shape }) => `${domain}${domain && '.'}${op} ${JSON.stringify(attributes)} ${type}[${shape}]`;
const outside = (index, allowed) => new RegExp(`node embed: found the index ${index}( at \\[[\\d, ]+\\])?, allowed ${allowed}$`, 'm');
const textOf = (error) => [error, error.cause, error.cause?.cause].map((one) => one?.message ?? '').join('\n');
const failure = (promise) => promise.then(() => 'it ran', textOf);

/** What is found first: the greatest in its absolute value, unless the case says what is computed of it. */
const foundOf = ({ found }, values, i) => found?.[i] ?? values.find((value) => Math.abs(value) === Math.max(...values.map(Math.abs)));

/** The same, where the node reads what the device has computed. */
const computed = (item) => modelOf({ ...item, isComputed: true });

const WHERE = ['cpu', 'gpu'].flatMap((where) => [[where, 'given', modelOf], [where, 'computed', computed]]);

describe.each(WHERE)('on the %s, %s', (where, _, make) => {
  test.each(CASES.map((item) => [titleOf(item), item]))('%s', async (_, item) => {
    const context = contexts[where];
    if (context === undefined) return;
    const { type = 'int64', shape, fits, wrong, allowed } = item;
    const model = await loadOnnx(context, make(item));
    const run = (values) => model.run({ i: { data: indicesOf(type, values), shape } });
    const before = await run(fits);
    for (const [i, values] of wrong.entries()) expect(await failure(run(values))).toMatch(outside(foundOf(item, values, i), allowed));
    const after = await run(fits);
    expect(after).toEqual(before);
    model.destroy();
  });
});

test.each(CASES.map((item) => [titleOf(item), item]))('a constant is refused when the model is loaded: %s', async (_, item) => {
  const { type = 'int64', wrong } = item;
  for (const values of wrong) {
    const loading = loadOnnx(contexts.cpu, modelOf(item, indicesOf(type, values))).then((model) => model.run({}));
    expect(await failure(loading)).toMatch(/embed.*allowed/s);
  }
});

test('no indices are none outside, and OneHot has none', async () => {
  const model = await loadOnnx(contexts.cpu, modelOf({ op: 'Gather', shape: [null], inputs: [table, 'i'] }));
  expect((await model.run({ i: { data: new BigInt64Array(0), shape: [0] } })).o0.shape).toEqual([0, 4]);
  const oneHot = { op: 'OneHot', shape: [4], inputs: ['i', { type: 'int64', shape: [1], array: BigInt64Array.of(3n) }, { type: 'float', shape: [2], array: Float32Array.of(0, 1) }] };
  const hot = await loadOnnx(contexts.cpu, modelOf(oneHot));
  const { o0 } = await hot.run({ i: { data: BigInt64Array.of(2n, -3n, 3n, -4n), shape: [4] } });
  expect([...o0.data]).toEqual([0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
});

/** A model that gathers what other nodes made of the ids, among them one whose size only a run can tell. */
const cut = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'i', type: 'int64', shape: ['n'] }],
    outputs: [{ name: 'y' }],
    initializers: [tensor('t', 'float', [6, 4], ramp([6, 4])), tensor('line', 'int64', [1], BigInt64Array.of(-1n))],
    nodes: [
      { op: 'NonZero', inputs: ['i'], outputs: ['places'] },
      { op: 'Reshape', inputs: ['places', 'line'], outputs: ['flat'] },
      { op: 'Gather', name: 'chosen', inputs: ['i', 'flat'], outputs: ['ids'] },
      { op: 'Gather', name: 'embed', inputs: ['t', 'ids'], outputs: ['y'] },
    ],
  });

test('a model that is cut, bindings and a session report it too', async () => {
  const model = await loadOnnx(contexts.cpu, cut());
  const run = (...ids) => model.run({ i: { data: BigInt64Array.from(ids, BigInt), shape: [ids.length] } });
  expect((await run(0, 5, -6)).y.shape).toEqual([2, 4]);
  expect(await failure(run(0, 5, 6))).toMatch(outside(6, '-6 to 5'));
  expect((await run(5)).y.shape).toEqual([1, 4]);
  const single = modelOf(CASES[0]);
  const whole = await loadOnnx(contexts.cpu, single);
  const id = BigInt64Array.of(1n, 7n);
  expect(await failure(whole.run({ i: id }, { outputs: { o0: new Float32Array(8) } }))).toMatch(/found the index 7|outputs/);
  const session = await InferenceSession.create(single);
  const feed = (...ids) => session.run({ i: new Tensor('int64', BigInt64Array.from(ids, BigInt), [2]) });
  expect(await failure(feed(1, 7))).toMatch(outside(7, '-6 to 5'));
  expect((await feed(1, 5)).o0.data[4]).toBe(21);
});

test('Compress with a condition that is true beyond the axis', async () => {
  const nodes = [{ op: 'Compress', name: 'embed', inputs: ['t', 'i'], outputs: ['y'], attributes: { axis: 0 } }];
  const bytesOf = writeModel({ opset: 17, inputs: [{ name: 'i', type: 'bool', shape: ['n'] }], outputs: [{ name: 'y' }], initializers: [tensor('t', 'float', [2, 3], ramp([2, 3]))], nodes });
  const model = await loadOnnx(contexts.cpu, bytesOf);
  const run = (...list) => model.run({ i: { data: Uint8Array.from(list), shape: [list.length] } });
  expect([...(await run(0, 1, 0)).y.data]).toEqual([3, 4, 5]);
  expect(await failure(run(0, 1, 1))).toMatch(/embed.*found the index 2 at \[1\], allowed -2 to 1/);
});

/** Large lists are looked at piece by piece. */
test('many indices', async () => {
  const shape = [1, 200_000];
  const model = await loadOnnx(contexts.cpu, modelOf({ op: 'GatherElements', shape, attributes: { axis: 1 }, inputs: [f([1, 9]), 'i'] }));
  const data = new BigInt64Array(200_000).fill(-9n);
  expect((await model.run({ i: { data, shape } })).o0.data.every((x) => x === 1)).toBe(true);
  data[123_456] = 9n;
  expect(await failure(model.run({ i: { data, shape } }))).toMatch(/found the index 9 at \[0, 123456\], allowed -9 to 8/);
});

describe('generate()', () => {
  const all = async (...given) => {
    const found = [];
    for await (const token of generate(...given)) found.push(token.id);
    return found;
  };
  const prompt = (length) => Array.from({ length }, (_, i) => (i * 7) % TOKENS);

  test.each(['MultiHeadAttention', 'GroupQueryAttention'])('with %s: a token that the vocabulary does not have', async (kind) => {
    const model = await loadOnnx(contexts.cpu, decoder(kind));
    const wanted = await all(model, prompt(20), { maxNewTokens: 4 });
    for (const wrong of [[...prompt(20), TOKENS], [TOKENS + 5, 1], [TOKENS]]) {
      expect(await failure(all(model, wrong, { maxNewTokens: 4 }))).toMatch(`found the index ${wrong.find((id) => id >= TOKENS)}`);
    }
    expect(await all(model, prompt(20), { maxNewTokens: 4 })).toEqual(wanted);
    model.destroy();
  });

  test('positions end, also where a prompt is filled up', async () => {
    const model = await loadOnnx(contexts.cpu, decoder('MultiHeadAttention'));
    // As long as there are positions.
    for (const length of [LONGEST - 1, LONGEST - 3]) expect(await all(model, prompt(length), { maxNewTokens: LONGEST - length + 1 })).toHaveLength(LONGEST - length + 1);
    expect(await failure(all(model, prompt(LONGEST - 1), { maxNewTokens: 3 }))).toMatch(`found the index ${LONGEST}`);
    expect(await failure(all(model, prompt(LONGEST + 1), { maxNewTokens: 1 }))).toMatch('found the index');
    model.destroy();
  });
});

describe.each(['cpu', 'gpu'])('what the device has, on the %s', (where) => {
  /** Doubles ids, and gathers by ids. */
  const twice = () => modelOf({ shape: [2], inputs: [], nodes: [{ op: 'Add', inputs: ['i', 'i'], outputs: ['o0'] }] });
  const open = (model) => loadOnnx(contexts[where], model);
  const read = async (tensorOf) => [...new Float32Array(await contexts[where].readTensor(tensorOf))];
  const wrong = outside(6, '-6 to 5');

  test('many indices', async () => {
    if (contexts[where] === undefined) return;
    const shape = [1, 200_000];
    const model = await open(modelOf({ op: 'GatherElements', shape, attributes: { axis: 1 }, inputs: [f([1, 9]), 'i'] }));
    const data = new BigInt64Array(200_000).fill(-9n);
    expect((await model.run({ i: { data, shape } })).o0.data.every((x) => x === 1)).toBe(true);
    data[123_456] = 9n;
    data[123_457] = -10n;
    expect(await failure(model.run({ i: { data, shape } }))).toMatch(/found the index 9 at \[0, 123456\], allowed -9 to 8/);
    model.destroy();
  });

  test('tensors that a dispatch has written, and what is computed of them', async () => {
    const context = contexts[where];
    if (context === undefined) return;
    const [first, second, next] = await Promise.all([twice(), modelOf(CASES[0]), negation()].map(open));
    const make = (dataType, shape) => context.createTensor({ dataType, shape, readable: true, writable: true });
    const [given, ids, rows, negated] = await Promise.all([make('int64', [2]), make('int64', [2]), make('float32', [2, 4]), make('float32', [2, 4])]);
    const bindings = await Promise.all([
      first.createBindings({ inputs: { i: given }, outputs: { o0: ids } }),
      second.createBindings({ inputs: { i: ids }, outputs: { o0: rows } }),
      next.createBindings({ inputs: { x: rows }, outputs: { y: negated } }),
    ]);
    const run = (...values) => {
      context.writeTensor(given, BigInt64Array.from(values, BigInt));
      bindings.forEach((one) => one.dispatch());
    };
    run(2, 0);
    const fine = [17, 18, 19, 20, 1, 2, 3, 4];
    expect(await read(negated)).toEqual(fine.map((x) => -x));
    run(0, 3);
    // Nobody has read yet, so the last heard of it by its input only.
    expect(await failure(read(negated))).toMatch(wrong);
    expect(await failure(read(rows))).toMatch(wrong);
    // The ids themselves are what they should be.
    expect([...new BigInt64Array(await context.readTensor(ids))]).toEqual([0n, 6n]);
    // It is known now.
    bindings[2].dispatch();
    expect(await failure(read(negated))).toMatch(wrong);
    context.writeTensor(rows, ramp([2, 4]));
    expect(await read(rows)).toEqual([...ramp([2, 4])]);
    run(0, 3);
    run(2, 0);
    expect(await read(rows)).toEqual(fine);
    expect(await read(negated)).toEqual(fine.map((x) => -x));
    [...bindings, first, second, next, given, ids, rows, negated].forEach((one) => one.destroy());
  });

  test('a failure of long ago', async () => {
    const context = contexts[where];
    if (context === undefined) return;
    // What is looked up is added to what was there.
    const nodes = [
      { op: 'Gather', name: 'embed', inputs: ['t', 'i'], outputs: ['row'] },
      { op: 'Add', inputs: ['row', 'x'], outputs: ['y'] },
    ];
    const inputs = [{ name: 'i', type: 'int64', shape: [] }, { name: 'x', type: 'float', shape: [4] }];
    const model = await open(writeModel({ opset: 17, inputs, outputs: [{ name: 'y' }], initializers: [tensor('t', 'float', [6, 4], ramp([6, 4], 1))], nodes }));
    const id = await open(modelOf({ shape: [], inputs: [], nodes: [{ op: 'Add', inputs: ['i', 'i'], outputs: ['o0'] }] }));
    const given = await id.createBindings();
    const sum = await model.createBindings({ inputs: { i: given.outputs.o0 } });
    const add = (value) => {
      given.write('i', BigInt64Array.of(value));
      given.dispatch();
      sum.dispatch();
      sum.swap('x', 'y');
    };
    for (const bad of [-1, 2]) {
      sum.write('x', new Float32Array(4));
      for (let i = 0; i < 150; i++) add(i === bad ? 3n : 1n);
      sum.swap('x', 'y');
      if (bad < 0) expect([...(await sum.read('y')).data]).toEqual([9, 10, 11, 12].map((x) => 150 * x));
      else expect(await failure(sum.read('y'))).toMatch(wrong);
    }
    [given, sum, id, model].forEach((one) => one.destroy());
  });

  test('a model that is cut', async () => {
    if (contexts[where] === undefined) return;
    const model = await open(cut());
    const run = (...ids) => model.run({ i: { data: BigInt64Array.from(ids, BigInt), shape: [ids.length] } });
    expect((await run(0, 5, -6)).y.shape).toEqual([2, 4]);
    expect(await failure(run(0, 5, 6))).toMatch(wrong);
    expect((await run(5)).y.shape).toEqual([1, 4]);
    model.destroy();
  });
});

/** y = -x */
function negation() {
  return writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [2, 4] }], outputs: [{ name: 'y' }], nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }] });
}
