'use strict';

// What has to work whatever the global object is, for the environments of jest and of vitest. Both give the same functions.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

// Models of one operator that changes signs, by the names of their inputs, as __tests__/onnx/write.js writes them. The library
// that it uses does not work in a page of jsdom.
const negations = {
  x: 'CAg6OgoPCgF4EgF5GgAiA05lZzoAEgVncmFwaFoPCgF4EgoKCAgBEgQKAggBYg8KAXkSCgoICAESBAoCCAFCBAoAEBE=',
  toString:
    'CAg6SAoWCgh0b1N0cmluZxIBeRoAIgNOZWc6ABIFZ3JhcGhaFgoIdG9TdHJpbmcSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUIECgAQEQ==',
};

/**
 * @param {typeof import('webnn-node')} webnn
 * @param {typeof import('webnn-node/onnx')} onnx
 * @param {{ afterAll: Function, beforeAll: Function, describe: Function, expect: Function, test: Function }} functions
 */
function suite({ ml, MLContext, MLGraphBuilder }, { loadOnnx }, { afterAll, beforeAll, describe, expect, test }) {
  const descriptor = { dataType: 'float32', shape: [2] };

  let context;
  beforeAll(async () => {
    context = await ml.createContext({ deviceType: 'cpu' });
  });
  afterAll(() => context.destroy());

  function adder() {
    const builder = new MLGraphBuilder(context);
    return builder.build({ c: builder.add(builder.input('a', descriptor), builder.input('b', descriptor)) });
  }

  test('objects are of the classes that are exported', () => {
    expect(context).toBeInstanceOf(MLContext);
    expect(Object.prototype.toString.call(context)).toBe('[object MLContext]');
  });

  test('tensors are written, dispatched and read, with memory of this realm', async () => {
    const graph = await adder();
    const [a, b, c] = await Promise.all([1, 2, 3].map(() => context.createTensor({ ...descriptor, readable: true, writable: true })));
    context.writeTensor(a, Float32Array.of(1, 2));
    context.writeTensor(b, new DataView(Float32Array.of(3, 4).buffer));
    context.dispatch(graph, { a, b }, { c });
    const into = new Float32Array(2);
    await context.readTensor(c, into);
    expect([...into]).toEqual([4, 6]);
    expect([...new Float32Array(await context.readTensor(c))]).toEqual([4, 6]);
  });

  test('compute() takes the memory and gives it back', async () => {
    const a = Float32Array.of(1, 2);
    const { inputs, outputs } = await context.compute(await adder(), { a, b: Float32Array.of(3, 4) }, { c: new Float32Array(2) });
    expect(a).toHaveLength(0);
    expect([...inputs.a, ...outputs.c]).toEqual([1, 2, 4, 6]);
    expect(outputs.c).toBeInstanceOf(Float32Array);
  });

  test('what is wrong is a TypeError or a DOMException by name', async () => {
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', descriptor);
    expect(() => builder.relu({})).toThrow(expect.objectContaining({ name: 'TypeError' }));
    await builder.build({ y: builder.relu(x) });
    expect(() => builder.relu(x)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    await expect(ml.createContext({ deviceType: 'npu' })).rejects.toMatchObject({ name: 'NotSupportedError' });
  });

  describe('loadOnnx() with a URL of this environment', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-url-'));
    const file = path.join(folder, 'a model.onnx');
    beforeAll(() => fs.writeFileSync(file, negations.x, 'base64'));
    afterAll(() => fs.rmSync(folder, { recursive: true }));

    test('of a file', async () => {
      const model = await loadOnnx(context, new URL(pathToFileURL(file).href));
      const { data: y } = (await model.run({ x: Float32Array.of(3) })).y;
      expect([...y]).toEqual([-3]);
    });

    test('of something else', async () => {
      const message = "loadOnnx: source: found the URL 'https://example.org/a.onnx', allowed one of a file";
      await expect(loadOnnx(context, new URL('https://example.org/a.onnx'))).rejects.toMatchObject({ name: 'TypeError', message });
    });
  });

  test('an input that is undefined is named, with what is allowed', async () => {
    const model = await loadOnnx(context, Buffer.from(negations.toString, 'base64'));
    const wrong = { name: 'TypeError', message: "run: inputs: 'toString': found undefined, allowed a Float32Array" };
    await expect(model.run({ ['toString']: undefined })).rejects.toMatchObject(wrong);
    const missing = { message: "run: inputs: found none, allowed exactly the model's inputs 'toString'" };
    await expect(model.run({})).rejects.toMatchObject(missing);
  });
}

module.exports = { suite };
