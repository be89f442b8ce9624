/** @jest-environment ./__tests__/environments/of-a-browser.js */
'use strict';

// A small suite where the global object is not Node's.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { ml } = require('..');
const { loadOnnx } = require('../lib/onnx.js');
const { buildAdder } = require('./adder.js');
const { writeModel } = require('./onnx/write.js');

let context;
beforeAll(async () => {
  expect(globalThis.structuredClone).toBeUndefined();
  context = await ml.createContext({ deviceType: 'cpu' });
});
afterAll(() => context.destroy());

test('compute() takes the memory and gives it back', async () => {
  const graph = await buildAdder(context);
  const a = Float32Array.of(1, 2);
  const { inputs, outputs } = await context.compute(graph, { a, b: Float32Array.of(3, 4) }, { c: new Float32Array(2) });
  expect(a).toHaveLength(0);
  expect([...inputs.a, ...outputs.c]).toEqual([1, 2, 4, 6]);
});

describe('loadOnnx() with a URL of another implementation', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-url-'));
  const file = path.join(folder, 'a model.onnx');
  beforeAll(() => {
    const x = { name: 'x', type: 'float', shape: [1] };
    const nodes = [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }];
    fs.writeFileSync(file, writeModel({ opset: 17, inputs: [x], outputs: [{ ...x, name: 'y' }], nodes }));
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  test('of a file', async () => {
    const model = await loadOnnx(context, new URL(pathToFileURL(file).href));
    expect(await model.run({ x: Float32Array.of(3) })).toEqual({ y: Float32Array.of(-3) });
  });

  test('of something else', async () => {
    const message = "loadOnnx: source: found the URL 'https://example.org/a.onnx', allowed one of a file";
    await expect(loadOnnx(context, new URL('https://example.org/a.onnx'))).rejects.toMatchObject({ name: 'TypeError', message });
  });
});

test('an input that is undefined is named, with what is allowed', async () => {
  const x = { name: 'toString', type: 'float', shape: [1] };
  const nodes = [{ op: 'Neg', inputs: ['toString'], outputs: ['y'] }];
  const model = await loadOnnx(context, writeModel({ opset: 17, inputs: [x], outputs: [{ ...x, name: 'y' }], nodes }));
  const wrong = { name: 'TypeError', message: "run: inputs: 'toString': found undefined, allowed a Float32Array" };
  await expect(model.run({ ['toString']: undefined })).rejects.toMatchObject(wrong);
  const missing = { message: "run: inputs: found none, allowed exactly the model's inputs 'toString'" };
  await expect(model.run({})).rejects.toMatchObject(missing);
});
