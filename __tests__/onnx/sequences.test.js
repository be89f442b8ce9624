'use strict';

// Sequences and optional values as inputs and outputs of models.

const { OnnxTensor, inspectOnnx, loadOnnx } = require('webnn-node/onnx');
const ort = require('webnn-node/onnxruntime');
const { withContexts } = require('./contexts.js');
const { floats, longs, tensor, writeModel } = require('./write.js');

let context;
let gpu;
withContexts((cpu, other) => {
  [context, gpu] = [cpu, other];
});

const row = (...numbers) => ({ data: floats(...numbers), shape: [numbers.length] });
const lists = (value) => value.map(({ data }) => [...data]);

const constant = (name, ...numbers) => tensor(name, 'int64', [numbers.length], longs(...numbers));

/** Rows of any length: all of them doubled, how many there are, and all of them one after the other. */
const doubling = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'rows', type: 'float', shape: ['length'], sequence: true }, { name: 'more', type: 'float', shape: [2] }],
    outputs: [
      { name: 'doubled', type: 'float', shape: ['length'], sequence: true },
      { name: 'count', type: 'int64', shape: [] },
      { name: 'all', type: 'float', shape: ['total'] },
    ],
    nodes: [
      { op: 'SequenceInsert', inputs: ['rows', 'more'], outputs: ['longer'] },
      {
        op: 'SequenceMap',
        inputs: ['longer'],
        outputs: ['doubled'],
        attributes: {
          body: {
            graph: {
              inputs: [{ name: 'one', type: 'float', shape: [null] }],
              outputs: [{ name: 'two', type: 'float', shape: [null] }],
              nodes: [{ op: 'Add', inputs: ['one', 'one'], outputs: ['two'] }],
            },
          },
        },
      },
      { op: 'SequenceLength', inputs: ['longer'], outputs: ['count'] },
      { op: 'ConcatFromSequence', inputs: ['doubled'], outputs: ['all'], attributes: { axis: 0 } },
    ],
  });

/** What an optional value holds, or nothing: whether it is there, and itself. */
const passing = (sequence) => {
  const info = { type: 'float', shape: ['n'], optional: true, ...(sequence && { sequence }) };
  return writeModel({
    opset: 18,
    inputs: [{ name: 'maybe', ...info }],
    outputs: [{ name: 'is', type: 'bool', shape: [] }, { name: 'same', ...info }],
    nodes: [{ op: 'OptionalHasElement', inputs: ['maybe'], outputs: ['is'] }, { op: 'Identity', inputs: ['maybe'], outputs: ['same'] }],
  });
};

/** Sequences that only a run makes: x split in rows of a length that is an input, without the one at a place. */
const splitting = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: ['n'] }, { name: 'size', type: 'int64', shape: [] }, { name: 'place', type: 'int64', shape: [] }],
    outputs: [{ name: 'rows', type: 'float', sequence: true }, { name: 'others', type: 'float', sequence: true }],
    initializers: [constant('two', 2)],
    nodes: [
      { op: 'SplitToSequence', inputs: ['x', 'size'], outputs: ['rows'], attributes: { axis: 0 } },
      { op: 'SequenceErase', inputs: ['rows', 'place'], outputs: ['others'] },
    ],
  });

async function withModel(bytes, work, on = context) {
  const model = await loadOnnx(on, bytes);
  try {
    return await work(model);
  } finally {
    model.destroy();
  }
}

test('what they are is told', () =>
  withModel(doubling(), (model) => {
    expect(model.inputs).toEqual([
      { name: 'rows', type: 'float32', dataType: 'float32', shape: ['length'], sequence: true },
      { name: 'more', type: 'float32', dataType: 'float32', shape: [2] },
    ]);
    expect(model.outputs[0]).toEqual({ name: 'doubled', type: 'float32', dataType: 'float32', shape: ['length'], sequence: true });
    expect(model.graph).toBeUndefined();
  }));

test('optional values are told, and in the summary of a file', async () => {
  await withModel(passing(true), (model) => {
    expect(model.inputs).toEqual([{ name: 'maybe', type: 'float32', dataType: 'float32', shape: ['n'], optional: true, sequence: true }]);
    expect(model.outputs[1]).toMatchObject({ optional: true, sequence: true });
  });
  const { inputs } = await inspectOnnx(passing(false));
  expect(inputs).toEqual([{ name: 'maybe', dataType: 'float32', shape: ['n'], optional: true }]);
});

const devices = [['the CPU', () => context], ['a GPU', () => gpu]];

test.each(devices)('a sequence is an array of tensors, of any number and shapes, on %s', async (_, on) => {
  if (on() === undefined) return;
  await withModel(
    doubling(),
    async (model) => {
      const more = floats(7, 8);
      for (const given of [[], [[1]], [[1, 2, 3], [4]], [[1], [2, 3, 4]], [[]], [[1, 2, 3], [4]]]) {
        const { doubled, count, all } = await model.run({ rows: given.map((numbers) => row(...numbers)), more });
        const expected = [...given, [7, 8]].map((numbers) => numbers.map((number) => 2 * number));
        expect(lists(doubled)).toEqual(expected);
        expect(doubled.every((element) => element instanceof OnnxTensor)).toBe(true);
        expect(doubled.map(({ shape }) => shape)).toEqual(expected.map(({ length }) => [length]));
        expect(count.data).toEqual(longs(given.length + 1));
        expect([...all.data]).toEqual(expected.flat());
      }
    },
    on(),
  );
});

test('an empty sequence is one, too', () =>
  withModel(splitting(), async (model) => {
    const x = { data: floats(1, 2, 3, 4, 5), shape: [5] };
    const run = async (size, place) => {
      const { rows, others } = await model.run({ x, size: longs(size), place: longs(place) });
      return [lists(rows), lists(others)];
    };
    expect(await run(2, 1)).toEqual([[[1, 2], [3, 4], [5]], [[1, 2], [5]]]);
    expect(await run(2, -1)).toEqual([[[1, 2], [3, 4], [5]], [[1, 2], [3, 4]]]);
    expect(await run(5, 0)).toEqual([[[1, 2, 3, 4, 5]], []]);
    await expect(run(2, 3)).rejects.toThrow(/position 3 of 3/);
  }));

test('arrays are copied at the call', () =>
  withModel(doubling(), async (model) => {
    const first = floats(1, 2);
    const run = model.run({ rows: [{ data: first, shape: [2] }], more: floats(0, 0) });
    first.fill(9);
    expect(lists((await run).doubled)).toEqual([[2, 4], [0, 0]]);
  }));

test('an optional value may be left out, or be null', () =>
  withModel(passing(false), async (model) => {
    for (const given of [{}, { maybe: null }, { maybe: undefined }]) {
      const { is, same } = await model.run(given);
      expect([is.data[0], same]).toEqual([0, null]);
    }
    const { is, same } = await model.run({ maybe: row(1, 2) });
    expect([is.data[0], [...same.data]]).toEqual([1, [1, 2]]);
  }));

test('an empty sequence is not nothing', () =>
  withModel(passing(true), async (model) => {
    const run = async (given) => {
      const { is, same } = await model.run(given);
      return [is.data[0], same];
    };
    expect(await run({})).toEqual([0, null]);
    expect(await run({ maybe: [] })).toEqual([1, []]);
    const [is, same] = await run({ maybe: [row(1), row(2, 3)] });
    expect([is, lists(same)]).toEqual([1, [[1], [2, 3]]]);
  }));

test('plans are made ahead, and only what is wanted is given', () =>
  withModel(doubling(), async (model) => {
    await model.prepare([{ rows: [[3], [1]] }, { rows: [] }]);
    const results = await model.run({ rows: [row(1, 2, 3), row(4)], more: floats(0, 0) }, { outputs: ['count', 'doubled'] });
    expect(Object.keys(results)).toEqual(['doubled', 'count']);
    await expect(model.prepare([{}])).rejects.toThrow(/'rows': found no shapes, allowed an array of shapes/);
    await expect(model.prepare([{ rows: [3] }])).rejects.toThrow(/'rows': found .*, allowed an array of shapes/);
    await expect(model.prepare([{ rows: [[1, 2]] }])).rejects.toThrow(/'rows'\[0\]: found the shape \[1, 2\], allowed \[length\]/);
  }));

test('bindings hold them', () =>
  withModel(doubling(), async (model) => {
    const bindings = await model.createBindings({ inputs: { rows: [row(1), row(2, 3)], more: floats(0, 1) } });
    bindings.dispatch();
    expect(lists(await bindings.read('doubled'))).toEqual([[2], [4, 6], [0, 2]]);
    bindings.swap('rows', 'doubled');
    bindings.write('more', floats(1, 1));
    bindings.dispatch();
    expect(lists(await bindings.read('doubled'))).toEqual([[4], [8, 12], [0, 4], [2, 2]]);
    bindings.write('rows', []);
    bindings.dispatch();
    expect(lists(await bindings.read('doubled'))).toEqual([[2, 2]]);
    expect(Number((await bindings.read('count')).data[0])).toBe(1);
    bindings.destroy();
  }));

describe('what does not fit is named', () => {
  const more = floats(0, 0);
  test.each([
    ['a tensor', { rows: row(1), more }, /inputs: 'rows': found an object, allowed an array of tensors/],
    ['a number', { rows: [1], more }, /inputs: 'rows'\[0\]: found 1, allowed \{ data, shape \}/],
    ['an array without a shape', { rows: [floats(1)], more }, /inputs: 'rows'\[0\]: found .*, allowed \{ data, shape \}/],
    ['a hole', { rows: [row(1), , row(2)], more }, /inputs: 'rows'\[1\]: found undefined/], // eslint-disable-line no-sparse-arrays
    ['another rank', { rows: [row(1), { data: floats(1), shape: [1, 1] }], more }, /'rows'\[1\]: found the shape \[1, 1\], allowed \[length\]/],
    ['another type', { rows: [{ data: longs(1), shape: [1] }], more }, /'rows'\[0\]: found a BigInt64Array, allowed a Float32Array for float32/],
    ['too few elements', { rows: [{ data: floats(1), shape: [2] }], more }, /'rows'\[0\]: found 1 elements, allowed 2/],
    ['nothing', { rows: null, more }, /'rows': found null, allowed an array of tensors/],
    ['a sequence for a tensor', { rows: [], more: [row(1, 2)] }, /'more': found an array, allowed a typed array or/],
  ])('%s', async (_, inputs, message) => {
    await withModel(doubling(), (model) => expect(model.run(inputs)).rejects.toThrow(message));
  });

  test('an array for a result that has no one size', () =>
    withModel(doubling(), (model) =>
      expect(model.run({ rows: [], more }, { outputs: { doubled: floats(1) } })).rejects.toThrow(/'doubled': found .*, allowed null for a sequence/),
    ));
});

test('many runs of different numbers at once', () =>
  withModel(doubling(), async (model) => {
    const runs = Array.from({ length: 40 }, async (_, i) => {
      const rows = Array.from({ length: i % 7 }, (__, position) => row(...new Array(1 + ((i + position) % 3)).fill(i)));
      const { doubled } = await model.run({ rows, more: floats(0, 0) });
      expect(lists(doubled)).toEqual([...rows.map(({ data }) => [...data].map((number) => 2 * number)), [0, 0]]);
    });
    await Promise.all(runs);
  }));

test('nothing stays behind', () =>
  withModel(doubling(), async (model) => {
    const run = () => model.run({ rows: [row(1), row(2, 3)], more: floats(0, 1) });
    await run();
    const before = context.memoryUsage().tensors;
    for (let i = 0; i < 5; i++) await run();
    expect(context.memoryUsage().tensors).toBe(before);
  }));

test('sessions of onnxruntime refuse them in its words', async () => {
  const session = await ort.InferenceSession.create(doubling());
  expect(session.inputMetadata[0]).toEqual({ name: 'rows', isTensor: false });
  expect(session.outputMetadata[0]).toEqual({ name: 'doubled', isTensor: false });
  const more = new ort.Tensor('float32', floats(0, 0), [2]);
  await expect(session.run({ rows: [more], more })).rejects.toThrow(/Tensor/);
  await session.release();
  const other = await ort.InferenceSession.create(splitting());
  const feeds = { x: new ort.Tensor('float32', floats(1, 2), [2]), size: new ort.Tensor('int64', longs(1), []), place: new ort.Tensor('int64', longs(0), []) };
  await expect(other.run(feeds)).rejects.toThrow('Non tensor type is temporarily not supported.');
  await other.release();
});
