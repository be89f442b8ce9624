'use strict';

// docs/extensions.md C22: `performance` changes when runs are done and by how many threads, and nothing else. What threads there are is tested in
// processes.test.js, what is refused in context.test.js.

const ort = require('webnn-node/onnxruntime');
const { ml, MLGraphBuilder } = require('webnn-node');
const { float32 } = require('./adder.js');
const { writeModel } = require('./onnx/write.js');

const SETTINGS = [{}, { performance: 'latency' }, { performance: 'throughput' }, { performance: 2 }, { performance: 'latency', numThreads: 3 }, { numThreads: 1 }];
const CLIENTS = 5;

/** Layers of so many numbers for each of so many rows. */
async function build(context, rows, size) {
  const builder = new MLGraphBuilder(context);
  const weights = Float32Array.from({ length: size * size }, (_, i) => Math.sin(i) / Math.sqrt(size));
  let y = builder.input('x', float32(rows, size));
  for (let layer = 0; layer < 4; layer++) y = builder.softmax(builder.matmul(y, builder.constant(float32(size, size), weights)), 1);
  return builder.build({ y });
}

test.each([[2, 32], [64, 128], [96, 384]])('results of %i x %i are the same to the bit with every setting', async (rows, size) => {
  let expected;
  for (const setting of SETTINGS) {
    const context = await ml.createContext({ accelerated: false, ...setting });
    const graph = await build(context, rows, size);
    const client = async (_, number) => {
      const results = [];
      for (let round = 0; round < 1; round++) {
        const x = Float32Array.from({ length: rows * size }, (_, i) => Math.cos(number + i * (round + 1)));
        const { outputs } = await context.compute(graph, { x }, { y: new Float32Array(rows * size) });
        results.push(new Uint32Array(outputs.y.buffer));
      }
      return results;
    };
    const found = [await client(undefined, 0), ...(await Promise.all(Array.from({ length: CLIENTS }, client)))];
    expected ??= found;
    expect(found.every((results, i) => results.every((result, j) => Buffer.from(result.buffer).equals(Buffer.from(expected[i][j].buffer))))).toBe(true);
    context.destroy();
  }
});

test('sessions of webnn-node/onnxruntime have it as an option of the providers cpu and webnn', async () => {
  const model = writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [3] }], outputs: [{ name: 'y' }], nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }] });
  const of = async (provider) => {
    const session = await ort.InferenceSession.create(model, { executionProviders: [provider] });
    const { y } = await session.run({ x: new ort.Tensor('float32', Float32Array.of(1, 2, 3), [3]) });
    await session.release();
    return [...y.data];
  };
  for (const name of ['cpu', 'webnn']) {
    for (const performance of [undefined, 'latency', 'throughput', 2]) expect(await of({ name, performance })).toEqual([-1, -2, -3]);
    for (const performance of ['fast', 0, 1.5]) await expect(of({ name, performance })).rejects.toThrow(/allowed 'latency', 'throughput' or a whole number/);
  }
});
