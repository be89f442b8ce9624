'use strict';

// 400 MB that a graph is given, and gives back, three times.

const assert = require('node:assert');
const { MLGraphBuilder } = require('..');

const LENGTH = 100 * 2 ** 20;

/** `seen` is called with the array when it is made, and as each run gives it back. */
async function passAround(context, seen) {
  const builder = new MLGraphBuilder(context);
  const input = builder.input('x', { dataType: 'float32', shape: [LENGTH] });
  const graph = await builder.build({ last: builder.slice(input, [LENGTH - 4], [4]) });
  let x = new Float32Array(LENGTH);
  x[LENGTH - 1] = 7;
  seen(x);
  for (let i = 0; i < 3; i++) {
    const { inputs, outputs } = await context.compute(graph, { x }, { last: new Float32Array(4) });
    ({ x } = inputs);
    seen(x);
    assert.deepStrictEqual(outputs.last, Float32Array.of(0, 0, 0, 7));
  }
  graph.destroy();
}

module.exports = { BYTES: 4 * LENGTH, passAround };
