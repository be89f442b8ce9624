'use strict';

// saved.js OPTIONS: reads steps with saved graphs, each [method, …arguments], and does them on a context with these options. It says what comes of
// each: what the method returned, or the name and message of its exception.

const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const { ml, MLGraphBuilder } = require('../..');
const native = require('../../lib/native.js');

const WIDTH = 384;
const float32 = (...shape) => ({ dataType: 'float32', shape });
const numbers = (count, seed) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.7 + seed) / 20);

/** A network with constants of all sizes, of which some are packed, some read as they are, and some computed with. */
function network(builder, scale) {
  const constant = (seed, ...shape) => builder.constant(float32(...shape), numbers(shape.reduce((a, b) => a * b, 1), seed));
  const ids = builder.input('ids', { dataType: 'int32', shape: [1, 8] });
  let x = builder.gather(constant(1, 1000, WIDTH), ids);
  for (let layer = 0; layer < 2; layer++) {
    x = builder.add(builder.matmul(x, builder.transpose(constant(layer + 2, WIDTH, WIDTH))), constant(layer + 4, WIDTH), { label: 'é' });
    x = builder.gelu(builder.layerNormalization(x, { axes: [2], epsilon: 1e-6 }));
  }
  const image = builder.reshape(x, [1, 8, 16, 24]);
  const conv = builder.conv2d(image, constant(8, 16, 8, 3, 3), { padding: [1, 1, 1, 1], bias: constant(9, 16) });
  const [left, right] = builder.split(builder.relu(conv), 2, { axis: 1 });
  const clamped = builder.clamp(builder.mul(left, builder.constant('float32', scale)), { minValue: -1, maxValue: 9n });
  return { x, y: builder.concat([clamped, right], 1), z: builder.reduceSum(x, { axes: [1] }) };
}

async function digest(graph, context) {
  const hash = createHash('sha256');
  const tensors = (described, flag) => Promise.all(Object.entries(described).map(async ([name, descriptor]) => [name, await context.createTensor({ ...descriptor, [flag]: true })]));
  const [inputs, outputs] = [await tensors(graph.inputs, 'writable'), await tensors(graph.outputs, 'readable')];
  for (const [, tensor] of inputs) context.writeTensor(tensor, Int32Array.from({ length: 8 }, (_, i) => i * 31));
  context.dispatch(graph, Object.fromEntries(inputs), Object.fromEntries(outputs));
  for (const [name, tensor] of outputs) hash.update(name).update(new Uint8Array(await context.readTensor(tensor)));
  return hash.digest('hex');
}

async function main() {
  const [options, steps] = [process.argv[2], readFileSync(0, 'utf8')].map((text) => JSON.parse(text));
  const context = await ml.createContext({ accelerated: false, numThreads: 1, ...options });
  let graph;
  const methods = {
    async build(scale = 2, buildOptions = {}) {
      const builder = new MLGraphBuilder(context);
      graph = await builder.build(network(builder, scale), { label: 'net', ...buildOptions });
      return digest(graph, context);
    },
    save: (key) => context.saveGraph(key, graph),
    async load(key) {
      graph = await context.loadGraph(key);
      return digest(graph, context);
    },
    list: () => context.listGraphs(),
    delete: (key) => context.deleteGraph(key),
    describe: () => ({ label: graph.label, inputs: graph.inputs, outputs: graph.outputs }),
    destroy: () => graph.destroy(),
    usage: () => context.memoryUsage(),
    state() {
      native.finishCache();
      return native.cacheState();
    },
    // Without waiting for any of them.
    together: (...calls) => Promise.all(calls.map(attempt)),
  };
  async function attempt([method, ...given]) {
    try {
      return (await methods[method](...given)) ?? null;
    } catch ({ name, message, cause }) {
      return { name, message, ...(cause === undefined ? {} : { cause: cause.message }) };
    }
  }
  const said = [];
  for (const step of steps) said.push(await attempt(step));
  console.log(JSON.stringify(said));
}

main();
