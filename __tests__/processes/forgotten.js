'use strict';

// Makes one object after the other and forgets them, in a process of its own: prints how many, and the most that was there at one
// time, of bytes, or of threads.

const fs = require('node:fs');
const { ml, MLCommandEncoder, MLGraphBuilder } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { buildAdder, createTensors } = require('../adder.js');
const { tensor, writeModel } = require('../onnx/write.js');

const MIB = 1 << 20;
const COUNT = 400;
const bytes = { dataType: 'uint8', shape: [MIB] };

const loops = {
  async tensors(context) {
    for (let i = 0; i < COUNT; i++) await context.createTensor(bytes);
    return context.memoryUsage().peak;
  },
  async 'constant tensors'(context) {
    const data = new Uint8Array(MIB);
    for (let i = 0; i < COUNT; i++) await context.createConstantTensor(bytes, data);
    return context.memoryUsage().peak;
  },
  // Without a turn of the event loop in between.
  async builders(context) {
    const data = new Uint8Array(MIB);
    for (let i = 0; i < COUNT; i++) new MLGraphBuilder(context).constant(bytes, data);
    return context.memoryUsage().peak;
  },
  async graphs(context) {
    const shape = [MIB / 4];
    const data = new Float32Array(MIB / 4);
    for (let i = 0; i < COUNT; i++) {
      data.fill(i + 1);
      const builder = new MLGraphBuilder(context);
      const constant = builder.constant({ dataType: 'float32', shape }, data);
      await builder.build({ y: builder.add(builder.input('x', { dataType: 'float32', shape: [1] }), constant) });
    }
    return context.memoryUsage().peak;
  },
  // Without a turn of the event loop in between. Contexts do not count them, so it is what the process got of the system.
  async 'command buffers'(context) {
    const graph = await buildAdder(context);
    const [a, b, c] = await createTensors(context, 3);
    const label = 'x'.repeat(MIB);
    const before = process.memoryUsage.rss();
    let most = 0;
    for (let i = 0; i < COUNT; i++) {
      const encoder = new MLCommandEncoder(context);
      encoder.initializeGraph(graph);
      encoder.dispatch(graph, { a, b }, { c }, { label });
      encoder.finish();
      most = Math.max(most, process.memoryUsage.rss() - before);
    }
    return most;
  },
  async models(context) {
    for (let i = 0; i < COUNT; i++) await loadOnnx(context, model(i + 1));
    return context.memoryUsage().peak;
  },
  async bindings(context) {
    const loaded = await loadOnnx(context, model(1));
    for (let i = 0; i < COUNT; i++) await loaded.createBindings();
    return context.memoryUsage().peak;
  },
  async contexts() {
    let most = 0;
    for (let i = 0; i < COUNT; i++) {
      const context = await ml.createContext({ deviceType: 'cpu', numThreads: 2 });
      context.memoryUsage();
      most = Math.max(most, fs.readdirSync('/proc/self/task').length);
    }
    return most;
  },
};

/** A model whose weights, and whose output, take 1 MiB. */
function model(weight) {
  const x = { name: 'x', type: 'float', shape: [1] };
  const weights = tensor('w', 'float', [MIB / 4], new Float32Array(MIB / 4).fill(weight));
  const y = { name: 'y', type: 'float', shape: [MIB / 4] };
  return writeModel({ opset: 17, inputs: [x], outputs: [y], initializers: [weights], nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }] });
}

async function main() {
  const context = await ml.createContext({ deviceType: 'cpu' });
  console.log(JSON.stringify({ count: COUNT, most: await loops[process.argv[2]](context) }));
}

main();
