'use strict';

// compiled.js <kind>: builds graphs of different shapes on a GPU and destroys them. Prints by how many bytes the process has grown;
// `unavailable` where there is no GPU.
// `run`: each is run, and the context destroyed in the end; what is left when that is small, or after 20 s.
// `built`: none is run; what is left in the end.
// compiled.js constants: builds and runs a graph with 96 MiB of constants. Prints the bytes of the driver's that were added, beyond those of
// memoryUsage().

const { readFileSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { ml, MLGraphBuilder } = require('../..');

const filter = new Float32Array(4 * 4 * 3 * 3).fill(0.1);

async function build(context, shape) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { dataType: 'float32', shape });
  const images = builder.relu(builder.conv2d(x, builder.constant({ dataType: 'float32', shape: [4, 4, 3, 3] }, filter)));
  const sums = builder.reduceSum(builder.softmax(images, 3), { axes: [2] });
  return await builder.build({ y: builder.sigmoid(builder.matmul(sums, builder.transpose(sums, { permutation: [0, 2, 1] }))) });
}

/** The resident bytes that are of no file. */
const anonymous = () => 1024 * Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);

async function constants(context) {
  const [width, layers] = [1024, 24];
  const before = anonymous();
  const builder = new MLGraphBuilder(context);
  let value = builder.input('x', { dataType: 'float32', shape: [1, width] });
  const weights = new Float32Array(width * width);
  for (let i = 0; i < layers; i++) value = builder.matmul(value, builder.constant({ dataType: 'float32', shape: [width, width] }, weights.fill(i / width)));
  const graph = await builder.build({ y: value });
  await context.compute(graph, { x: new Float32Array(width) }, { y: new Float32Array(width) });
  const { tensors, graphs, plans, scratch } = context.memoryUsage();
  // Copies for the builder, and of pieces, go in their time.
  const beyond = () => anonymous() - before - (tensors + graphs + plans + scratch);
  for (let tries = 0; tries < 30 && beyond() > 24 << 20; tries++) {
    global.gc();
    await sleep(100);
  }
  console.log(beyond());
}

async function main(kind) {
  let context;
  try {
    context = await ml.createContext({ deviceType: 'gpu' });
  } catch {
    console.log('unavailable');
    return;
  }
  if (kind === 'constants') return constants(context);
  const before = process.memoryUsage.rss();
  const count = { run: 60, built: 160 }[kind];
  for (let i = 0; i < count; i++) {
    const shape = [1, 4, 5 + (i % 8), 6 + Math.floor(i / 8)];
    const graph = await build(context, shape);
    if (kind === 'run') await context.compute(graph, { x: new Float32Array(shape.reduce((a, b) => a * b)) }, { y: new Float32Array(16) });
    graph.destroy();
  }
  const grown = () => process.memoryUsage.rss() - before;
  if (kind === 'run') {
    context.destroy();
    const last = Date.now() + 20_000;
    while (grown() > 32 << 20 && Date.now() < last) await sleep(50);
  }
  console.log(grown());
}

main(process.argv[2]);
