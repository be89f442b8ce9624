'use strict';

// Runs in a process that gets only so much memory: everything that wants too much is refused with an error that says so, and
// what comes after works.

const { MLGraphBuilder } = require('../..');
const { open, small } = require('./work.js');

const GIB = 2 ** 30;
const bytes = { dataType: 'uint8', shape: [GIB] };

async function refusal(promise) {
  try {
    await promise;
    return 'none';
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

/** Creates until there is no more. */
async function exhaust(create) {
  const made = [];
  for (let i = 0; i < 1000; i++) {
    const reason = await refusal(create(i).then((one) => made.push(one)));
    if (reason !== 'none') {
      for (const one of made) one.destroy();
      return reason;
    }
  }
  return 'none';
}

async function main() {
  const context = await open();
  const results = {};
  results.createTensor = await exhaust((i) => context.createTensor({ ...bytes, label: `tensor ${i}` }));
  results.afterTensors = await small(context);

  // The values in between want more than there is: all parts are made before the first is used up.
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { dataType: 'uint8', shape: [32] });
  // What is computed alike is computed once, so each is made of something else.
  const parts = Array.from({ length: 32 }, (_, i) => builder.tile(builder.slice(x, [i], [1]), [GIB / 2 - 1]));
  const y = parts.map((part) => builder.reduceMax(builder.cast(part, 'float32'))).reduce((sum, part) => builder.add(sum, part));
  const graph = await builder.build({ y });
  const input = await context.createTensor({ dataType: 'uint8', shape: [32] });
  const output = await context.createTensor({ dataType: 'float32', shape: [], readable: true });
  context.dispatch(graph, { x: input }, { y: output }, { label: 'too much' });
  results.dispatch = await refusal(context.readTensor(output));
  graph.destroy();
  results.afterDispatch = await small(context);

  const readable = await context.createTensor({ ...bytes, readable: true, label: 'to read' });
  const held = [];
  results.readTensor = 'none';
  for (let i = 0; i < 100 && results.readTensor === 'none'; i++) {
    results.readTensor = await refusal(context.readTensor(readable).then((buffer) => held.push(buffer)));
  }
  held.length = 0;
  readable.destroy();
  results.afterRead = await small(context);
  process.stdout.write(JSON.stringify(results));
}

main();
