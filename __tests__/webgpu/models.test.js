/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// ONNX models on a context on a GPUDevice: those that are one graph for given shapes, and those that a run cuts into parts.

const { setTimeout } = require('node:timers/promises');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('../onnx/write.js');
const { createTensors, read } = require('../adder.js');
const { newContext, onDevice } = require('./device.js');

const floats = (...numbers) => Float32Array.from(numbers);

/** y = x w + b for x of [rows, 2]. */
const affine = (rows) =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [rows, 2] }],
    outputs: [{ name: 'y', type: 'float', shape: [rows, 2] }],
    initializers: [tensor('w', 'float', [2, 2], floats(1, 2, 3, 4)), tensor('b', 'float', [2], floats(0.5, -0.5))],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['p'] },
      { op: 'Add', inputs: ['p', 'b'], outputs: ['y'] },
    ],
  });

onDevice('a model of known shapes runs on arrays and on tensors', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, affine(2));
  const { y } = await model.run({ x: floats(1, 0, 0, 1) });
  expect([...y.data]).toEqual([1.5, 1.5, 3.5, 3.5]);
  expect(model.graph.devices).toEqual(['gpu']);
  const bindings = await model.createBindings();
  bindings.write('x', floats(1, 1, 2, 2));
  bindings.dispatch();
  bindings.swap('x', 'y');
  bindings.dispatch();
  expect([...(await bindings.read('y')).data]).toEqual([4.5 + 16.5 + 0.5, 9 + 22 - 0.5, 8.5 + 34.5 + 0.5, 17 + 46 - 0.5]);
  bindings.destroy();
  model.destroy();
  expect(context.memoryUsage()).toMatchObject({ tensors: 0, graphs: 0, scratch: 0 });
});

onDevice('a model of open shapes is planned for each, and its tensors can be WebGPU\'s', async () => {
  const { context, device } = await newContext();
  const model = await loadOnnx(context, affine('rows'));
  const runs = [1, 3, 2, 3].map((rows) => model.run({ x: { data: new Float32Array(2 * rows).fill(1), shape: [rows, 2] } }));
  for (const { y } of await Promise.all(runs)) {
    expect([...y.data]).toEqual(Array.from(y.data, (_, i) => (i % 2 ? 5.5 : 4.5)));
  }
  const shared = await context.createExportableTensor({ dataType: 'float32', shape: [1, 2], readable: true, writable: true }, device);
  const fixed = await loadOnnx(context, affine(1));
  const bindings = await fixed.createBindings({ inputs: { x: shared } });
  const buffer = context.exportToGPU(shared);
  device.queue.writeBuffer(buffer, 0, floats(2, 0));
  buffer.destroy();
  bindings.dispatch();
  expect([...(await bindings.read('y')).data]).toEqual([2.5, 3.5]);
  expect(await read(context, shared)).toEqual([2, 0]);
});

/** What NonZero finds among twice the numbers, and the numbers there. */
const places = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['n'] }],
    outputs: [{ name: 'places' }, { name: 'values' }],
    initializers: [tensor('two', 'float', [], floats(2))],
    nodes: [
      { op: 'Mul', inputs: ['x', 'two'], outputs: ['d'] },
      { op: 'NonZero', name: 'where', inputs: ['d'], outputs: ['places'] },
      { op: 'Transpose', inputs: ['places'], outputs: ['t'] },
      { op: 'GatherND', inputs: ['d', 't'], outputs: ['values'] },
    ],
  });

/** The sum of i * x over so many trips as the input says, where there is one. */
const trips = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'n', type: 'int64', shape: [] }, { name: 'x', type: 'float', shape: [3] }],
    outputs: [{ name: 'sum' }],
    initializers: [tensor('zeros', 'float', [3], floats(0, 0, 0))],
    nodes: [
      {
        op: 'Loop', inputs: ['n', '', 'zeros'], outputs: ['sum'],
        attributes: {
          body: {
            graph: {
              inputs: [{ name: 'i' }, { name: 'c' }, { name: 'part' }],
              outputs: [{ name: 'go' }, { name: 'next' }],
              nodes: [
                { op: 'Identity', inputs: ['c'], outputs: ['go'] },
                { op: 'Cast', inputs: ['i'], outputs: ['f'], attributes: { to: 1 } },
                { op: 'Mul', inputs: ['f', 'x'], outputs: ['product'] },
                { op: 'Add', inputs: ['part', 'product'], outputs: ['next'] },
              ],
            },
          },
        },
      },
    ],
  });

onDevice('a model that is cut runs from part to part, several runs at once', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, places(), { label: 'cut' });
  const inputs = [[1, 0, 3], [0, 0], [0, 5, 6, 0], [7], [1, 0, 3]];
  const runs = await Promise.all(inputs.map((x) => model.run({ x: floats(...x) })));
  runs.forEach(({ places: at, values }, i) => {
    const found = inputs[i].flatMap((x, k) => (x === 0 ? [] : [[k, 2 * x]]));
    expect(at.shape).toEqual([1, found.length]);
    expect([Array.from(at.data, Number), [...values.data]]).toEqual([found.map(([k]) => k), found.map(([, x]) => x)]);
  });
  model.destroy();
  // What runs had goes when the device's thread has its turn.
  await setTimeout(20);
  expect(context.memoryUsage()).toMatchObject({ tensors: 0, graphs: 0, scratch: 0 });
});

/** How often a device's memory is written to by script, and mapped. */
function counting(device) {
  const counts = { written: 0, mapped: 0 };
  const note = (object, method, what) => {
    const original = object[method];
    Object.defineProperty(object, method, {
      value(...given) {
        what(...given);
        return Reflect.apply(original, object, given);
      },
      configurable: true,
    });
  };
  note(device.queue, 'writeBuffer', () => counts.written++);
  // What can be mapped, is.
  note(device, 'createBuffer', ({ usage }) => (counts.mapped += usage & 1));
  return counts;
}

onDevice('a model that is cut takes tensors and gives them, which stay on the device', async () => {
  const { context, device } = await newContext();
  const model = await loadOnnx(context, places());
  const [x, values] = await createTensors(context, 2, { dataType: 'float32', shape: [4] });
  const pairs = await createTensors(context, 1, { dataType: 'float32', shape: [2] });
  context.writeTensor(x, floats(1, 0, 3, 0));
  const bindings = await model.createBindings({ inputs: { x } });
  bindings.dispatch();
  expect([...(await bindings.read('values')).data]).toEqual([2, 6]);
  context.writeTensor(x, floats(0, 9, 0, 0));
  bindings.dispatch();
  expect([...(await bindings.read('values')).data]).toEqual([18]);
  bindings.destroy();

  const known = await model.createBindings({ inputs: { x }, outputs: { values } });
  context.writeTensor(x, floats(1, 2, 3, 4));
  known.dispatch();
  expect([...(await known.read('values')).data]).toEqual([2, 4, 6, 8]);
  expect(await read(context, values)).toEqual([2, 4, 6, 8]);
  const counts = counting(device);
  known.dispatch();
  await known.read('places');
  // What NonZero looks at is read, what it finds is written, and the test reads it; x and values stay where they are.
  expect(counts).toEqual({ written: 1, mapped: 2 });
  known.destroy();

  // What a result does not fit is refused, and the tensor has what it had.
  const wrong = await model.createBindings({ inputs: { x }, outputs: { values: pairs[0] } });
  wrong.dispatch();
  await expect(wrong.read('values')).rejects.toThrow(/float32\[4\]|allowed/);
  expect(await read(context, pairs[0])).toEqual([0, 0]);
  wrong.destroy();
  model.destroy();
  for (const tensor of [x, values, pairs[0]]) tensor.destroy();
});

onDevice('loops run on the device', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, trips());
  const run = async (n) => [...(await model.run({ n: BigInt64Array.of(BigInt(n)), x: floats(1, 2, 3) })).sum.data];
  expect([await run(4), await run(0), await run(1)]).toEqual([[6, 12, 18], [0, 0, 0], [0, 0, 0]]);
  model.destroy();
});

onDevice('a run of a model that is cut ends with its context, and with its device', async () => {
  for (const end of ['context', 'device']) {
    const { context, device } = await newContext();
    const model = await loadOnnx(context, trips());
    const running = model.run({ n: BigInt64Array.of(1n << 19n), x: floats(1, 2, 3) });
    await setTimeout(50);
    (end === 'context' ? context : device).destroy();
    await expect(running).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  }
});

onDevice('what a model may take is held against its limit, and its end leaves nothing pending', async () => {
  const { context } = await newContext();
  const model = await loadOnnx(context, affine('rows'), { maxBytes: 1 << 16 });
  await expect(model.run({ x: { data: new Float32Array(1 << 17), shape: [1 << 16, 2] } })).rejects.toThrow(/maxBytes/);
  const running = model.run({ x: { data: new Float32Array(8), shape: [4, 2] } });
  context.destroy();
  await expect(running).rejects.toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
});

/** The rows of twice the ids; of one row, a number for each id. */
const rows = (type, shape, table) =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'i', type, shape }],
    outputs: [{ name: 'ids' }, { name: 'y' }],
    initializers: [tensor('t', 'float', table, Float32Array.from({ length: table[0] * (table[1] ?? 1) }, (_, i) => i))],
    nodes: [
      { op: 'Add', inputs: ['i', 'i'], outputs: ['ids'] },
      { op: 'Gather', name: 'embed', inputs: ['t', 'ids'], outputs: ['y'] },
    ],
  });

const messages = (promise) => promise.then(() => 'it ran', (error) => [error, error.cause, error.cause?.cause].map((one) => one?.message ?? '').join('\n'));

onDevice('indices from the host are looked at before a run', async () => {
  const { context } = await newContext();
  const initializers = [tensor('t', 'float', [6], floats(0, 1, 2, 3, 4, 5))];
  for (const [type, View] of [['int64', BigInt64Array], ['int32', Int32Array]]) {
    const nodes = [{ op: 'Gather', name: 'embed', inputs: ['t', 'i'], outputs: ['y'] }];
    const model = await loadOnnx(context, writeModel({ opset: 17, inputs: [{ name: 'i', type, shape: [2] }], outputs: [{ name: 'y' }], initializers, nodes }));
    const bindings = await model.createBindings();
    const idsOf = (...ids) => View.from(ids, type === 'int64' ? BigInt : Number);
    const bound = (ids) => {
      bindings.write('i', ids);
      bindings.dispatch();
      return bindings.read('y');
    };
    for (const run of [async (ids) => (await model.run({ i: ids })).y, bound]) {
      expect([...(await run(idsOf(5, -6))).data]).toEqual([5, 0]);
      expect(await messages(run(idsOf(5, 6)))).toMatch('node embed: found the index 6 at [1], allowed -6 to 5');
      expect([...(await run(idsOf(1, 2))).data]).toEqual([1, 2]);
    }
    [bindings, model].forEach((one) => one.destroy());
  }
});

onDevice('indices that the device has computed are looked at there', async () => {
  const { context } = await newContext();
  const most = 2 ** 62;
  for (const [type, View, wrong] of [['int64', BigInt64Array, [3, -4, 2 ** 40, -most]], ['int32', Int32Array, [3, -4, 2 ** 29]]]) {
    const model = await loadOnnx(context, rows(type, [2], [6, 2]));
    const run = (...ids) => model.run({ i: View.from(ids, type === 'int64' ? BigInt : Number) });
    const fine = async () => expect([...(await run(2, -3)).y.data]).toEqual([8, 9, 0, 1]);
    await fine();
    for (const one of wrong) {
      // As computed: a sum of 64 bits may overflow.
      const found = type === 'int64' ? BigInt.asIntN(64, 2n * BigInt(one)) : 2 * one;
      expect(await messages(run(1, one))).toMatch(`node embed: found the index ${found} at [1], allowed -6 to 5`);
      await fine();
    }
    model.destroy();
  }
  const many = await loadOnnx(context, rows('int64', [20_000], [9]));
  const ids = new BigInt64Array(20_000).fill(-4n);
  expect((await many.run({ i: ids })).y.data.every((x) => x === 1)).toBe(true);
  ids[12_345] = 5n;
  ids[19_999] = 6n;
  expect(await messages(many.run({ i: ids }))).toMatch('found the index 10 at [12345], allowed -9 to 8');
  many.destroy();
});

onDevice('what was computed by an index outside is errored, and what is computed of that', async () => {
  const { context } = await newContext();
  const [ids, twice] = await Promise.all([rows('int64', [1], [6, 2]), affine(1)].map((bytes) => loadOnnx(context, bytes)));
  const first = await ids.createBindings();
  const second = await twice.createBindings({ inputs: { x: first.outputs.y } });
  const run = (id) => {
    first.write('i', BigInt64Array.of(id));
    first.dispatch();
    second.dispatch();
  };
  const fine = [4 + 15 + 0.5, 8 + 20 - 0.5];
  run(1n);
  expect([...(await second.read('y')).data]).toEqual(fine);
  run(-4n);
  const found = 'node embed: found the index -8 at [0], allowed -6 to 5';
  for (const bindings of [second, first, second]) expect(await messages(bindings.read('y'))).toMatch(found);
  // The ids themselves come of the same dispatch.
  expect(await messages(first.read('ids'))).toMatch(found);
  second.dispatch();
  expect(await messages(second.read('y'))).toMatch(`an input is errored: ${found}`);
  run(3n);
  run(1n);
  expect([...(await second.read('y')).data]).toEqual(fine);
  // Nobody reads meanwhile.
  const sum = await loadOnnx(context, affine(1));
  const chain = await sum.createBindings({ inputs: { x: first.outputs.y } });
  run(3n);
  for (let i = 0; i < 150; i++) {
    chain.dispatch();
    chain.swap('x', 'y');
  }
  expect(await messages(chain.read('y'))).toMatch('found the index 6 at [0]');
  [first, second, chain, ids, twice, sum].forEach((one) => one.destroy());
});
