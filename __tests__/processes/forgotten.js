'use strict';

// Makes one object after the other and forgets them, in a process of its own: prints the most that was there at one time, of bytes,
// or of threads.

const fs = require('node:fs');
const { ml, MLGraphBuilder } = require('../..');

const MIB = 1 << 20;
const bytes = { dataType: 'uint8', shape: [MIB] };

const loops = {
  async tensors(context) {
    for (let i = 0; i < 400; i++) await context.createTensor(bytes);
    return context.memoryUsage().peak;
  },
  async 'constant tensors'(context) {
    const data = new Uint8Array(MIB);
    for (let i = 0; i < 400; i++) await context.createConstantTensor(bytes, data);
    return context.memoryUsage().peak;
  },
  // Without a turn of the event loop in between.
  async builders(context) {
    const data = new Uint8Array(MIB);
    for (let i = 0; i < 400; i++) new MLGraphBuilder(context).constant(bytes, data);
    return context.memoryUsage().peak;
  },
  async graphs(context) {
    const shape = [MIB / 4];
    const data = new Float32Array(MIB / 4);
    for (let i = 0; i < 200; i++) {
      data.fill(i + 1);
      const builder = new MLGraphBuilder(context);
      const constant = builder.constant({ dataType: 'float32', shape }, data);
      await builder.build({ y: builder.add(builder.input('x', { dataType: 'float32', shape: [1] }), constant) });
    }
    return context.memoryUsage().peak;
  },
  async contexts() {
    let most = 0;
    for (let i = 0; i < 300; i++) {
      const context = await ml.createContext({ deviceType: 'cpu', numThreads: 2 });
      context.memoryUsage();
      most = Math.max(most, fs.readdirSync('/proc/self/task').length);
    }
    return most;
  },
};

async function main() {
  const context = await ml.createContext({ deviceType: 'cpu' });
  console.log(await loops[process.argv[2]](context));
}

main();
