'use strict';

// Graphs of tens of thousands of nodes: nothing recurses over them, nothing is quadratic, and the results are right.

const { MLGraphBuilder } = require('..');
const { createTensors, float32, read, useContext } = require('./adder.js');

const NODES = 20_000;
const held = useContext();

/** Builds the graph of `y`, and computes it for `x`. */
async function compute(builder, y, x, descriptor = float32(1)) {
  const { context } = held;
  const graph = await builder.build({ y });
  const [input] = await createTensors(context, 1, descriptor);
  const [output] = await createTensors(context, 1, { dataType: y.dataType, shape: y.shape });
  context.writeTensor(input, Float32Array.from(x));
  context.dispatch(graph, { x: input }, { y: output });
  const result = await read(context, output);
  for (const object of [graph, input, output]) object.destroy();
  return result;
}

test('20,000 nodes that move elements back and forth', async () => {
  const builder = new MLGraphBuilder(held.context);
  const one = builder.constant('float32', 1);
  const zero = builder.constant(float32(1), new Float32Array(1));
  let y = builder.input('x', float32(1));
  let nodes = 0;
  while (nodes < NODES) {
    const pair = builder.reshape(builder.concat([y, zero], 0), [1, 2]);
    const rows = builder.expand(pair, [3, 2]);
    const corner = builder.slice(builder.transpose(rows), [0, 2], [1, 1]);
    y = builder.add(builder.reshape(corner, [1]), one);
    nodes += 7;
  }
  expect(await compute(builder, y, [0.5])).toEqual([0.5 + nodes / 7]);
});

test('20,000 nodes that become no step at all', async () => {
  const builder = new MLGraphBuilder(held.context);
  let y = builder.input('x', float32(6));
  for (let i = 0; i < NODES / 2; i++) y = builder.identity(builder.reshape(y, i % 2 ? [6] : [2, 3]));
  expect(await compute(builder, builder.reshape(y, [6]), [1, 2, 3, 4, 5, 6], float32(6))).toEqual([1, 2, 3, 4, 5, 6]);
});

test('20,000 nodes of constants, which the compiler computes', async () => {
  const builder = new MLGraphBuilder(held.context);
  const one = builder.constant('float32', 1);
  let sum = one;
  for (let i = 1; i < NODES; i++) sum = builder.add(sum, one);
  expect(await compute(builder, builder.mul(builder.input('x', float32(1)), sum), [2])).toEqual([2 * NODES]);
});

test('20,000 nodes that no output needs', async () => {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', float32(1));
  let unused = x;
  for (let i = 0; i < NODES; i++) unused = builder.sin(unused);
  expect(await compute(builder, builder.neg(x), [3])).toEqual([-3]);
});

test('one operand with 20,000 consumers, and an operator with as many operands as are allowed', async () => {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', float32(1));
  const parts = Array.from({ length: NODES }, (_, i) => builder.add(x, builder.constant('float32', i)));
  expect(() => builder.concat(parts.slice(0, 8193), 0)).toThrow(TypeError);
  const whole = [];
  for (let i = 0; i < NODES; i += 8192) whole.push(builder.concat(parts.slice(i, i + 8192), 0));
  const y = builder.concat(whole, 0);
  expect(y.shape).toEqual([NODES]);
  expect(await compute(builder, y, [1])).toEqual(Array.from({ length: NODES }, (_, i) => i + 1));
});

test('a tree of splits and concats', async () => {
  const builder = new MLGraphBuilder(held.context);
  const x = builder.input('x', float32(4096));
  const reversed = (part, size) => {
    if (size === 1) return part;
    const [front, back] = builder.split(part, 2);
    return builder.concat([reversed(back, size / 2), reversed(front, size / 2)], 0);
  };
  const values = Array.from({ length: 4096 }, (_, i) => i);
  expect(await compute(builder, reversed(x, 4096), values, float32(4096))).toEqual([...values].reverse());
});

test('a thousand inputs and a thousand outputs', async () => {
  const { context } = held;
  const builder = new MLGraphBuilder(context);
  const names = Array.from({ length: 1000 }, (_, i) => `value ${i}`);
  const outputs = Object.fromEntries(names.map((name) => [name, builder.abs(builder.input(name, float32(1)))]));
  const graph = await builder.build(outputs);
  const [from, to] = [await createTensors(context, 1000, float32(1)), await createTensors(context, 1000, float32(1))];
  const bind = (tensors) => Object.fromEntries(names.map((name, i) => [name, tensors[i]]));
  from.forEach((tensor, i) => context.writeTensor(tensor, Float32Array.of(-i)));
  context.dispatch(graph, bind(from), bind(to));
  const results = await Promise.all(to.map((tensor) => read(context, tensor)));
  expect(results.flat()).toEqual(names.map((_, i) => i));
  for (const object of [graph, ...from, ...to]) object.destroy();
});

test('everything is released afterwards', () => {
  const { tensors, graphs, scratch } = held.context.memoryUsage();
  expect({ tensors, graphs, scratch }).toEqual({ tensors: 0, graphs: 0, scratch: 0 });
});
