'use strict';

// docs/extensions.md C24: memory for intermediate values of runs, which goes when no run uses it, and which models lend to each other; and plans.

const { ml, MLGraphBuilder } = require('..');
const { loadOnnx } = require('../lib/onnx.js');
const { generate } = require('../lib/generate.js');
const { float32 } = require('./adder.js');
const { TOKENS, decoder } = require('./generate/decoders.js');
const { tensor, writeModel } = require('./onnx/write.js');

const SIZE = 384;
const square = float32(SIZE, SIZE);
const open = (options) => ml.createContext({ accelerated: false, numThreads: 1, ...options });

/** A graph with values in between. */
function build(context) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', square);
  const between = builder.matmul(x, x);
  return builder.build({ y: builder.matmul(builder.matmul(between, x), between) });
}

/** One element of the result. */
async function run(context, graph) {
  const [x, y] = await Promise.all([context.createTensor({ ...square, writable: true }), context.createTensor({ ...square, readable: true })]);
  context.writeTensor(x, Float32Array.from({ length: SIZE * SIZE }, (_, i) => Math.sin(i)));
  context.dispatch(graph, { x }, { y });
  const result = new Float32Array(await context.readTensor(y))[SIZE + 1];
  x.destroy();
  y.destroy();
  return result;
}

test('memory that no run uses goes, and comes back', async () => {
  const context = await open({ idle: 1 });
  const graph = await build(context);
  const first = await run(context, graph);
  expect(context.memoryUsage().peak).toBeGreaterThan(SIZE * SIZE * 4);
  while (context.memoryUsage().scratch > 0) await new Promise(setImmediate);
  expect(await run(context, graph)).toBe(first);
  context.destroy();
});

test('graphs that run one after the other have one arena, counted where it was used last', async () => {
  const [context, other] = [await open({ idle: false }), await open({ idle: false })];
  const graphs = [await build(context), await build(context), await build(other)];
  const first = await run(context, graphs[0]);
  const { scratch } = context.memoryUsage();
  expect(scratch).toBeGreaterThan(256 << 10);
  expect(await run(context, graphs[1])).toBe(first);
  expect(context.memoryUsage().scratch).toBe(scratch);
  expect(await run(other, graphs[2])).toBe(first);
  expect([context.memoryUsage().scratch, other.memoryUsage().scratch]).toEqual([0, scratch]);
  expect(await run(context, graphs[0])).toBe(first);
  expect([context.memoryUsage().scratch, other.memoryUsage().scratch]).toEqual([scratch, 0]);
  // Whoever used it last has it end.
  context.destroy();
  expect(await run(other, graphs[2])).toBe(first);
  other.destroy();
});

describe('plans of ONNX models for other shapes than the last ones', () => {
  const model = writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: ['rows', 2] }],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers: [tensor('w', 'float', [2, 2], Float32Array.of(1, 2, 3, 4))],
  });
  const times = async (loaded, rows) => {
    const { y } = await loaded.run({ x: { data: Float32Array.from({ length: 2 * rows }, (_, i) => i), shape: [rows, 2] } });
    return Array.from(y.data.slice(-2));
  };
  const all = [1, 20, 400];
  const results = [[3, 4], [155, 232], [3195, 4792]];

  test('go when no run has used them, and come back', async () => {
    const context = await open({ idle: 1 });
    const loaded = await loadOnnx(context, model);
    expect(await times(loaded, 1)).toEqual(results[0]);
    const { plans } = loaded.memoryUsage();
    expect(plans).toBeGreaterThan(0);
    for (const turn of [0, 1]) {
      for (const [i, rows] of all.entries()) expect([turn, await times(loaded, rows)]).toEqual([turn, results[i]]);
      while (loaded.memoryUsage().plans > 1.5 * plans) await new Promise(setImmediate);
      expect(loaded.memoryUsage().plans).toBeGreaterThan(0);
    }
    loaded.destroy();
    context.destroy();
  });

  test('stay if the context says so', async () => {
    const context = await open({ idle: false });
    const loaded = await loadOnnx(context, model);
    await times(loaded, 1);
    const { plans } = loaded.memoryUsage();
    for (const rows of all) await times(loaded, rows);
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
    expect(loaded.memoryUsage().plans).toBeGreaterThan(2.5 * plans);
    context.destroy();
  });
});

describe('plans of a decoder for other numbers of tokens than the last one', () => {
  const tokens = async (model, ids) => {
    const found = [];
    for await (const { id } of generate(model, ids, { maxNewTokens: 3 })) found.push(id);
    return found;
  };
  const prompts = [5, 40, 3].map((length) => Array.from({ length }, (_, i) => (7 * i) % TOKENS));

  test('go when nobody has used them, and come back', async () => {
    const [context, other] = [await open({ idle: 1 }), await open({ idle: false })];
    const [model, keeping] = [await loadOnnx(context, decoder('concat')), await loadOnnx(other, decoder('concat'))];
    const wanted = [];
    for (const ids of prompts) wanted.push(await tokens(keeping, ids));
    const { plans } = keeping.memoryUsage();
    for (const turn of [0, 1]) {
      for (const [i, ids] of prompts.entries()) expect([turn, await tokens(model, ids)]).toEqual([turn, wanted[i]]);
      while (model.memoryUsage().plans > plans / 2) await new Promise(setImmediate);
      expect(model.memoryUsage().plans).toBeGreaterThan(0);
    }
    // One may have been made ahead since.
    expect(keeping.memoryUsage().plans).toBeGreaterThanOrEqual(plans);
    context.destroy();
    other.destroy();
  });
});

test.each([[true], [-1], [2 ** 32], ['soon'], [NaN]])('%p is refused', async (idle) => {
  await expect(open({ idle })).rejects.toThrow(TypeError);
});
