'use strict';

// Tensors of webnn-node/onnxruntime that stay on the device, on every device that there is.

const webnn = require('..');
const { InferenceSession, Tensor } = require('../lib/onnxruntime.js');
const { single, sums, value } = require('./onnxruntime/models.js');

const floats = (numbers, dims) => new Tensor('float32', Float32Array.from(numbers), dims);
const feeds = () => ({ a: floats([1, 2, 3], [1, 3]), b: floats([4, 5, 6], [1, 3]) });

/** `y` is where `x` is not zero: the model is cut, since only a run tells the size. */
const cut = () => single({ op: 'NonZero', inputs: [value('x', 'int32', 'n')], output: value('y', 'int64', 1, null) });

const providers = [['webnn', ['webnn']], ['webnn on a GPU', [{ name: 'webnn', deviceType: 'gpu' }]], ['webgpu', ['webgpu']], ['no provider', undefined]];

describe.each(providers)('%s', (_, executionProviders) => {
  let isThere = true;
  const create = async (model, options) => InferenceSession.create(model, { ...options, ...(executionProviders && { executionProviders }) });
  beforeAll(async () => {
    isThere = await create(sums).then((session) => session.release(), () => false) !== false;
    if (!isThere) console.log('no such device here');
  });
  const onDevice = (name, run) => test(name, async () => isThere && run());

  for (const location of ['ml-tensor', 'gpu-buffer']) {
    const member = location === 'ml-tensor' ? 'mlTensor' : 'gpuBuffer';

    onDevice(`${location}: all outputs, downloaded`, async () => {
      const session = await create(sums, { preferredOutputLocation: location });
      const { c, d } = await session.run(feeds());
      expect([c.location, c.type, c.dims, d.location]).toEqual([location, 'float32', [1, 3], location]);
      expect(c[member]).toBeInstanceOf(webnn.MLTensor);
      expect(() => c.data).toThrow('getData()');
      expect([...(await c.getData())]).toEqual([5, 7, 9]);
      expect([c.location, [...c.data], [...(await d.getData(true))]]).toEqual(['cpu', [5, 7, 9], [4, 10, 18]]);
      c.dispose();
      await session.release();
    });

    onDevice(`${location}: one output`, async () => {
      const session = await create(sums, { preferredOutputLocation: { c: location, d: 'cpu' } });
      const { c, d } = await session.run(feeds());
      expect([c.location, d.location, [...d.data]]).toEqual([location, 'cpu', [4, 10, 18]]);
      const only = await session.run(feeds(), ['d']);
      expect([Object.keys(only), only.d.location]).toEqual([['d'], 'cpu']);
    });

    onDevice(`${location}: fed back, without a copy`, async () => {
      const session = await create(sums, { preferredOutputLocation: { c: location } });
      let { c } = await session.run(feeds());
      for (let step = 0; step < 3; step++) {
        const next = await session.run({ a: c, b: feeds().b }, ['c']);
        expect(next.c[member]).not.toBe(c[member]);
        c.dispose();
        ({ c } = next);
      }
      expect([...(await c.getData())]).toEqual([5 + 12, 7 + 15, 9 + 18]);
    });

    onDevice(`${location}: dispose() frees`, async () => {
      const session = await create(sums, { preferredOutputLocation: location });
      const { c } = await session.run(feeds(), ['c']);
      const tensor = c[member];
      c.dispose();
      expect(() => c[member]).toThrow('disposed');
      const again = location === 'ml-tensor' ? Tensor.fromMLTensor(tensor, { dims: [1, 3] }) : Tensor.fromGpuBuffer(tensor, { dims: [1, 3] });
      await expect(session.run({ a: again, b: feeds().b })).rejects.toThrow('destroyed');
    });

    onDevice(`${location}: disposed of while a run uses it`, async () => {
      const session = await create(sums, { preferredOutputLocation: location });
      const { c, d } = await session.run(feeds());
      const tensor = c[member];
      const runs = [session.run({ a: c, b: feeds().b }), session.run({ a: c, b: d })];
      c.dispose();
      d.dispose();
      const found = await Promise.all((await Promise.all(runs)).map((results) => results.c.getData()));
      expect(found.map((array) => [...array])).toEqual([[9, 12, 15], [9, 17, 27]]);
      // It has gone with the last of them.
      const again = location === 'ml-tensor' ? Tensor.fromMLTensor(tensor, { dims: [1, 3] }) : Tensor.fromGpuBuffer(tensor, { dims: [1, 3] });
      await expect(session.run({ a: again, b: feeds().b })).rejects.toThrow('destroyed');
    });

    onDevice(`${location}: as an output of the caller's`, async () => {
      const session = await create(sums, { preferredOutputLocation: location });
      const { c } = await session.run(feeds());
      const again = await session.run({ a: floats([0, 0, 1], [1, 3]), b: floats([1, 0, 0], [1, 3]) }, { c });
      expect(again.c).toBe(c);
      expect([...(await c.getData())]).toEqual([1, 0, 1]);
    });

    onDevice(`${location}: of a model that is cut`, async () => {
      const session = await create(cut(), { preferredOutputLocation: location });
      for (const [numbers, places] of [[[0, 1, 2], [1n, 2n]], [[3, 0, 0, 4], [0n, 3n]]]) {
        const { y } = await session.run({ x: new Tensor('int32', numbers, [numbers.length]) });
        expect([y.location, y.dims, [...(await y.getData())]]).toEqual([location, [1, places.length], places]);
      }
      // Nothing is on no device.
      const { y } = await session.run({ x: new Tensor('int32', [0], [1]) });
      expect([y.location, y.dims, y.data.length]).toEqual(['cpu', [1, 0], 0]);
    });
  }

  onDevice('an MLTensor of a context of the program', async () => {
    const context = await webnn.ml.createContext();
    const session = await InferenceSession.create(sums, { executionProviders: [{ name: 'webnn', context, deviceType: 'cpu' }], preferredOutputLocation: { c: 'ml-tensor' } });
    const tensor = await context.createTensor({ dataType: 'float32', shape: [1, 3], writable: true, readable: true });
    context.writeTensor(tensor, Float32Array.of(1, 1, 2));
    const a = Tensor.fromMLTensor(tensor, { dataType: 'float32', dims: [1, 3] });
    const { c } = await session.run({ a, b: feeds().b });
    expect([...new Float32Array(await context.readTensor(c.mlTensor))]).toEqual([5, 6, 8]);
    // One of another context is read and written.
    const other = await create(sums);
    expect([...(await other.run({ a: c, b: feeds().b })).c.data]).toEqual([9, 11, 14]);
  });
});

test('with the provider cpu there is no device, as in onnxruntime', async () => {
  const session = await InferenceSession.create(sums, { executionProviders: ['cpu'], preferredOutputLocation: 'ml-tensor' });
  expect((await session.run(feeds())).c.location).toBe('cpu');
});

test('types that tensors on devices cannot have stay in memory', async () => {
  const model = single({ op: 'Cast', inputs: [value('x', 'float', 2)], output: value('y', 'double', 2), attributes: { to: 11 } });
  const session = await InferenceSession.create(model, { executionProviders: ['webnn'], preferredOutputLocation: 'ml-tensor' });
  const { y } = await session.run({ x: floats([1.5, 2], [2]) });
  expect([y.location, y.type, y.data]).toEqual(['cpu', 'float64', Float64Array.of(1.5, 2)]);
});
