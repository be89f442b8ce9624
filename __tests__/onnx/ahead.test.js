'use strict';

// Plans that are made before anybody asks for them.

const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { Ahead, FEW, MOST_ROOM, ROOM } = require('../../lib/onnx/ahead.js');
const { modelOf } = require('../../lib/onnx/onnx-model.js');
const { tensor, writeModel } = require('./write.js');

describe('which ones', () => {
  const lengths = (ahead) => {
    const found = [];
    for (let shapes = ahead.next(); shapes !== undefined; shapes = ahead.next()) {
      ahead.created();
      found.push(shapes[0].join('x'));
    }
    return found;
  };
  const texts = [{ shape: ['batch', 'sequence', 4] }, { shape: ['batch', 'sequence'] }];
  const meet = (ahead, sizes, batch = 1) => sizes.forEach((size) => ahead.met([[batch, size, 4], [batch, size]]));

  test('those between sizes that were met, the largest first', () => {
    const ahead = new Ahead(texts);
    meet(ahead, [3, 9, 5]);
    expect(FEW).toBe(4);
    expect(lengths(ahead)).toEqual([]);
    meet(ahead, [6]);
    expect(ahead.next()).toEqual([[1, 8, 4], [1, 8]]);
    expect(lengths(ahead)).toEqual(['1x7x4', '1x4x4']);
    // None is named twice.
    meet(ahead, [9, 3]);
    expect(lengths(ahead)).toEqual([]);
  });

  test('with the shapes that scalars had', () => {
    const ahead = new Ahead([{ shape: ['n'] }, { shape: [] }]);
    for (const size of [3, 5, 9, 7]) ahead.met([[size], [1]]);
    expect([ahead.next(), ahead.next()]).toEqual([[[8], [1]], [[6], [1]]]);
    ahead.met([[3], []]);
    expect(ahead.next()).toEqual([[4], []]);
  });

  test('where one dimension alone is another one', () => {
    const ahead = new Ahead(texts);
    for (const size of [3, 5, 7, 9, 11]) meet(ahead, [size], size);
    expect(lengths(ahead)).toEqual([]);
    meet(ahead, [3, 5, 8], 7);
    expect(lengths(ahead)).toEqual(['7x6x4', '7x4x4']);
    meet(ahead, [3], 1);
    meet(ahead, [3], 4);
    // The sizes of the batch, for texts of 3.
    expect(lengths(ahead)).toEqual(['6x3x4', '5x3x4', '2x3x4']);
  });

  test('not those up to one that is far from all others', () => {
    const ahead = new Ahead(texts);
    meet(ahead, [3, 100, 5, 9]);
    expect(lengths(ahead)).toEqual(['1x8x4', '1x7x4', '1x6x4', '1x4x4']);
    meet(ahead, [50]);
    expect(ahead.next()).toEqual([[1, 99, 4], [1, 99]]);
  });

  test('none between sizes that are far apart, as those of sounds', () => {
    const ahead = new Ahead(texts);
    meet(ahead, [1000, 1200, 1400, 1513]);
    expect(lengths(ahead)).toEqual([]);
    const other = new Ahead(texts);
    meet(other, [1000, 1200, 1400, 1512]);
    expect(lengths(other)).toHaveLength(ROOM);
  });

  test('as many again as were used', () => {
    const ahead = new Ahead(texts);
    meet(ahead, [1, 400, 300, 100]);
    expect(lengths(ahead)).toHaveLength(ROOM);
    ahead.used();
    // All but the one that was used are unused.
    expect(lengths(ahead)).toHaveLength(2 * ROOM - (ROOM - 1));
    for (let i = 0; i < 10; i++) ahead.used();
    expect(lengths(ahead)).toHaveLength(MOST_ROOM - (2 * ROOM - 10));
    ahead.gone();
    expect(lengths(ahead)).toHaveLength(1);
  });

  test.each([
    ['without names', [{ shape: ['?', 4] }]],
    ['without a shape', [{ shape: null }]],
    ['of lists', [{ shape: ['n'], sequence: true }]],
    ['of what need not be there', [{ shape: ['n'], optional: true }]],
  ])('none for inputs %s', (_, inputs) => {
    const ahead = new Ahead(inputs);
    for (const size of [1, 4, 9, 16]) ahead.met([[size, 4]]);
    expect(ahead.next()).toBeUndefined();
  });

  test('none where inputs contradict each other', () => {
    const ahead = new Ahead([{ shape: ['n'] }, { shape: ['n'] }]);
    for (const size of [1, 4, 9, 16]) ahead.met([[size], [1]]);
    expect(ahead.next()).toBeUndefined();
  });
});

describe('of a model', () => {
  let context;
  beforeAll(async () => {
    context = await ml.createContext({ accelerated: false });
  });
  afterAll(() => context.destroy());

  const scalar = (name, number) => tensor(name, 'int64', [], BigInt64Array.of(number));
  /** A list, each element times its place: each plan has the places as a constant of its own. */
  const bytes = writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['n'] }],
    outputs: [{ name: 'y', type: 'float', shape: ['n'] }],
    nodes: [
      { op: 'Size', inputs: ['x'], outputs: ['n'] },
      { op: 'Range', inputs: ['zero', 'n', 'one'], outputs: ['range'] },
      { op: 'Cast', inputs: ['range'], outputs: ['places'], attributes: { to: 1 } },
      { op: 'Mul', inputs: ['x', 'places'], outputs: ['y'] },
    ],
    initializers: [scalar('zero', 0n), scalar('one', 1n)],
  });
  const run = async (model, length) => {
    const { y } = await model.run({ x: Float32Array.from({ length }, (_, i) => i) });
    expect([...y.data]).toEqual(Array.from({ length }, (_, i) => i * i));
  };

  test('are made when nothing runs, used like others, and go with the model', async () => {
    const before = (await context.memoryUsage()).graphs;
    const model = await loadOnnx(context, bytes);
    const { plans } = modelOf(model);
    const [made, ahead] = [jest.spyOn(plans, 'make'), jest.spyOn(plans, 'makeAhead')];
    for (const [i, length] of [2, 40, 20, 30].entries()) {
      await run(model, length);
      expect(ahead).toHaveBeenCalledTimes(2 * i + 1);
      await plans.makeAhead();
    }
    expect(made).toHaveBeenCalledTimes(4);
    const kept = (await context.memoryUsage()).graphs;
    for (const length of [39, 32, 38, 33, 37, 34, 36, 35]) await run(model, length);
    expect(made).toHaveBeenCalledTimes(4);
    await plans.makeAhead();
    expect((await context.memoryUsage()).graphs).toBeGreaterThan(kept);
    await run(model, 300);
    expect(made).toHaveBeenCalledTimes(5);
    model.destroy();
    await plans.makeAhead();
    expect((await context.memoryUsage()).graphs).toBe(before);
  });

  test('whoever wants one that is being made does not wait for it', async () => {
    const before = (await context.memoryUsage()).graphs;
    const model = await loadOnnx(context, bytes);
    const { plans } = modelOf(model);
    const made = jest.spyOn(plans, 'make');
    for (const length of [2, 40, 20]) await run(model, length);
    // The first of them is begun when this one ends, and cannot be there yet.
    await run(model, 30);
    await run(model, 39);
    expect(made).toHaveBeenCalledTimes(5);
    await plans.makeAhead();
    await run(model, 39);
    await run(model, 38);
    expect(made).toHaveBeenCalledTimes(5);
    model.destroy();
    await plans.makeAhead();
    // Of the two for 39 none is left.
    expect((await context.memoryUsage()).graphs).toBe(before);
  });

  test('none in the place of others', async () => {
    const model = await loadOnnx(context, bytes);
    const { contextState, plans } = modelOf(model);
    const begun = jest.spyOn(contextState.order, 'planOnnx');
    // As many as are kept, and one more.
    await model.prepare(Array.from({ length: 513 }, (_, i) => ({ x: [2 * i + 1] })));
    await plans.makeAhead();
    expect(begun).toHaveBeenCalledTimes(513);
    begun.mockRestore();
    model.destroy();
  });

  test('a context may be destroyed meanwhile', async () => {
    const other = await ml.createContext({ accelerated: false });
    const model = await loadOnnx(other, bytes);
    for (const length of [2, 40, 20, 30]) await run(model, length);
    const making = modelOf(model).plans.makeAhead();
    other.destroy();
    await making;
    model.destroy();
  });
});
