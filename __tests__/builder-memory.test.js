'use strict';

// docs/extensions.md C10: the constants of a builder that will not be built.

const { MLGraphBuilder } = require('..');
const { float32, useContext } = require('./adder.js');

const held = useContext();

test('destroy() releases them', () => {
  const builder = new MLGraphBuilder(held.context);
  const before = held.context.memoryUsage().graphs;
  builder.constant(float32(1000), new Float32Array(1000));
  expect(held.context.memoryUsage().graphs).toBe(before + 4000);
  builder.destroy();
  builder.destroy();
  expect(held.context.memoryUsage().graphs).toBe(before);
});

test('a graph counts its own', async () => {
  const builder = new MLGraphBuilder(held.context);
  const constant = builder.constant(float32(1000), Float32Array.from({ length: 1000 }, Math.random));
  const graph = await builder.build({ y: builder.add(builder.input('x', float32(1000)), constant) });
  expect(held.context.memoryUsage().graphs).toBe(4000);
  graph.destroy();
  expect(held.context.memoryUsage().graphs).toBe(0);
});
