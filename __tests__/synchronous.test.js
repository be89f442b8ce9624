'use strict';

// docs/extensions.md D4 and D6: methods that block, in worker_threads only.

const { Worker } = require('node:worker_threads');
const { MLExecution } = require('..');
const { buildAdder, createTensors, useContext } = require('./adder.js');

const held = useContext();
const adder = require.resolve('./adder.js');

/** Runs the body of a function in a worker; what it returns comes back. */
function inWorker(body) {
  const program = `
    const { parentPort } = require('node:worker_threads');
    globalThis.beforeAll = globalThis.afterAll = () => {};
    const { ml, MLExecution, MLGraphBuilder } = require(${JSON.stringify(require.resolve('..'))});
    const { buildAdder, createTensors } = require(${JSON.stringify(adder)});
    (async () => {
      const context = await ml.createContext();
      const graph = await buildAdder(context);
      const [a, b, c] = await createTensors(context, 3);
      const caught = (call) => { try { call(); } catch (error) { return [error.name, error.message]; } };
      parentPort.postMessage(await (async () => { ${body} })());
    })();`;
  const worker = new Worker(program, { eval: true });
  return new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
}

test('on the main thread they say why not', async () => {
  const graph = await buildAdder(held.context);
  const [a] = await createTensors(held.context, 1);
  const views = [{ a: new Float32Array(2), b: new Float32Array(2) }, { c: new Float32Array(2) }];
  for (const call of [
    () => held.context.computeSync(graph, ...views),
    () => held.context.readTensorSync(a),
    () => new MLExecution(held.context).compute(graph, ...views),
  ]) {
    expect(call).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    expect(call).toThrow('event loop');
  }
  expect(() => held.context.computeSync.call({}, graph, ...views)).toThrow(TypeError);
  expect(() => MLExecution.prototype.compute.call({}, graph, ...views)).toThrow(TypeError);
});

test('executionModes is one frozen array, which says so', async () => {
  const { context } = held;
  expect(context.executionModes).toEqual(['awaited', 'queued', 'timeline']);
  expect(context.executionModes).toBe(context.executionModes);
  expect(Object.isFrozen(context.executionModes)).toBe(true);
  expect(await inWorker('return context.executionModes;')).toEqual(['immediate', 'awaited', 'queued', 'timeline']);
});

test('computeSync() fills the outputs in place', async () => {
  const result = await inWorker(`
    const [x, y, z] = [Float32Array.of(1, 2), Float32Array.of(10, 20), new Float32Array(2)];
    context.computeSync(graph, { a: x, b: y }, { c: z }, { label: 'one' });
    const w = new Float32Array(new WebAssembly.Memory({ initial: 1 }).buffer, 4, 2);
    new MLExecution(context).compute(graph, { a: x, b: z }, { c: w });
    return [[...x], [...z], [...w]];`);
  expect(result).toEqual([[1, 2], [11, 22], [12, 24]]);
});

test('computeSync() returns the views that it was given, by their names, as compute() does', async () => {
  const result = await inWorker(`
    const inputs = { a: Float32Array.of(1, 2), b: Float32Array.of(10, 20) };
    const outputs = { c: new Float32Array(2) };
    const is = (returned) => [Object.keys(returned), returned.inputs.a === inputs.a, returned.inputs.b === inputs.b,
      returned.outputs.c === outputs.c, Object.keys(returned.inputs), [...returned.outputs.c]];
    return [is(context.computeSync(graph, inputs, outputs)), is(new MLExecution(context).compute(graph, inputs, outputs))];`);
  const expected = [['inputs', 'outputs'], true, true, true, ['a', 'b'], [11, 22]];
  expect(result).toEqual([expected, expected]);
});

test('readTensorSync() sees what was enqueued before', async () => {
  const result = await inWorker(`
    context.writeTensor(a, Float32Array.of(1, 2));
    for (let i = 0; i < 100; i++) { context.dispatch(graph, { a, b }, { c }); context.dispatch(graph, { a, b: c }, { c: b }); }
    return [...new Float32Array(context.readTensorSync(b))];`);
  expect(result).toEqual([200, 400]);
});

test('what is wrong is thrown', async () => {
  const result = await inWorker(`
    const views = () => [{ a: new Float32Array(2), b: new Float32Array(2) }, { c: new Float32Array(2) }];
    const shared = new Float32Array(new SharedArrayBuffer(8));
    const same = new Float32Array(2);
    const results = [
      caught(() => context.computeSync()),
      caught(() => context.computeSync(graph, views()[0], { c: shared }, { label: 'mine' })),
      caught(() => context.computeSync(graph, { a: same, b: same }, { c: same })),
      caught(() => context.readTensorSync(graph)),
    ];
    c.destroy();
    results.push(caught(() => context.readTensorSync(c)));
    graph.destroy();
    results.push(caught(() => context.computeSync(graph, ...views())));
    return results;`);
  expect(result.map(([name]) => name)).toEqual(['TypeError', 'TypeError', 'TypeError', 'TypeError', 'TypeError', 'InvalidStateError']);
  expect(result[1][1]).toMatch(/^computeSync \[mine\]: .*SharedArrayBuffer/);
});

test('A5: a worker that waits can be ended', async () => {
  const program = `
    const { parentPort } = require('node:worker_threads');
    const { ml, MLGraphBuilder } = require(${JSON.stringify(require.resolve('..'))});
    (async () => {
      const context = await ml.createContext();
      const builder = new MLGraphBuilder(context);
      let x = builder.input('x', { dataType: 'float32', shape: [1 << 20] });
      const inputs = { x: new Float32Array(1 << 20) };
      for (let i = 0; i < 500; i++) x = builder.tanh(x);
      const graph = await builder.build({ y: x });
      parentPort.postMessage('started');
      for (;;) context.computeSync(graph, inputs, { y: new Float32Array(1 << 20) });
    })();`;
  const worker = new Worker(program, { eval: true });
  await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  expect(await worker.terminate()).toBe(1);
});
