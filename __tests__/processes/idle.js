'use strict';

// Everything is alive and nothing is pending.

const { MLGraphBuilder } = require('../..');
const { open } = require('./work.js');

globalThis.kept = [];

async function main() {
  const scalar = { dataType: 'float32', shape: [] };
  for (const numThreads of [0, 1, 2]) {
    const context = await open({ numThreads });
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: builder.relu(builder.input('x', scalar)) });
    const tensor = await context.createTensor({ ...scalar, readable: true, writable: true });
    const constant = await context.createConstantTensor(scalar, new Float32Array(1));
    globalThis.kept.push(context, graph, tensor, constant, new MLGraphBuilder(context), context.lost);
  }
  console.log('idle');
}

main();
