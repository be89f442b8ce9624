'use strict';

// What most tests of the API need: a context, and the smallest graph with two inputs.

const { ml, MLGraphBuilder } = require('..');

const float32 = (...shape) => ({ dataType: 'float32', shape });

/** A graph that computes `c = a + b`. */
async function buildAdder(context, descriptor = float32(2), options = {}) {
  const builder = new MLGraphBuilder(context);
  const c = builder.add(builder.input('a', descriptor), builder.input('b', descriptor));
  return builder.build({ c }, options);
}

function createTensors(context, count, descriptor = float32(2)) {
  return Promise.all(
    Array.from({ length: count }, () => context.createTensor({ ...descriptor, readable: true, writable: true })),
  );
}

async function read(context, tensor, View = Float32Array) {
  return [...new View(await context.readTensor(tensor))];
}

/** A context that ends with the tests of the file. */
function useContext(options) {
  const held = {};
  beforeAll(async () => {
    held.context = await ml.createContext(options);
  });
  afterAll(() => held.context.destroy());
  return held;
}

module.exports = { buildAdder, createTensors, float32, read, useContext };
