'use strict';

// Models of old exporters, and what others leave in their models: operators before version 7 that mean the same since, domains whose version
// the model does not say, and initializers that nobody reads.

const { loadOnnx } = require('webnn-node/onnx');
const { c, testCases, x } = require('./compare.js');
const { withContexts } = require('./contexts.js');
const { tensor, writeModel } = require('./write.js');

const float = (value) => ({ float: value });
const image = () => x([2, 3, 4, 5]);
const plain = ['Abs', 'Elu', 'Exp', 'HardSigmoid', 'LeakyRelu', 'Neg', 'Relu', 'Selu', 'Sigmoid', 'Tanh'];

testCases([
  ...plain.map((op) => ({ op, opset: 6, inputs: [image()] })),
  ...['Max', 'Mean', 'Min', 'Sum'].map((op) => ({ op, opset: 6, inputs: [image(), image()] })),
  { op: 'Clip', opset: 6, attributes: { min: float(-1), max: float(0.5) }, inputs: [image()] },
  { op: 'InstanceNormalization', opset: 6, inputs: [image(), c([3]), c([3])] },
  { op: 'Concat', opset: 4, attributes: { axis: 1 }, inputs: [image(), image()] },
  { op: 'Reshape', opset: 5, inputs: [image(), c([2], { type: 'int64', values: [2, -1] })] },
  { op: 'Pad', opset: 2, attributes: { pads: [0, 0, 1, 1, 0, 0, 2, 2] }, inputs: [image()] },
  { op: 'Split', opset: 2, outputs: 2, attributes: { axis: 2 }, inputs: [image()] },
  { op: 'Conv', opset: 1, attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }, inputs: [image(), c([4, 3, 3, 3])] },
  { op: 'MaxPool', opset: 1, attributes: { kernel_shape: [2, 2] }, inputs: [image()] },
  { op: 'GlobalAveragePool', opset: 1, inputs: [image()] },
  { op: 'MatMul', opset: 1, inputs: [x([2, 3]), c([3, 4])] },
  { op: 'Softmax', opset: 1, inputs: [image()] },
  { op: 'Flatten', opset: 1, inputs: [image()] },
  { op: 'Squeeze', opset: 1, attributes: { axes: [0] }, inputs: [x([1, 3])] },
  { op: 'Unsqueeze', opset: 1, attributes: { axes: [0] }, inputs: [x([3])] },
  { op: 'Slice', opset: 1, attributes: { starts: [1], ends: [3], axes: [2] }, inputs: [image()] },
  { op: 'Transpose', opset: 1, inputs: [image()] },
  { op: 'ReduceMean', opset: 1, attributes: { axes: [1] }, inputs: [image()] },
  { op: 'LRN', opset: 1, attributes: { size: 3 }, inputs: [image()] },
]);

let context;
withContexts((cpu) => (context = cpu));

const inputs = [{ name: 'x', type: 'float', shape: [2, 2] }];
const model = (nodes, others = {}) => writeModel({ opset: 17, inputs, outputs: [{ name: 'y' }], nodes, ...others });
const run = async (bytes) => [...(await (await loadOnnx(context, bytes)).run({ x: Float32Array.of(3, 4, 0, 2) })).y.data];

test('what meant something else before version 7 is refused with the version', async () => {
  for (const op of ['Add', 'Gemm', 'PRelu']) {
    const bytes = model([{ op, name: 'n', inputs: ['x', 'x', 'x'].slice(0, op === 'Gemm' ? 3 : 2), outputs: ['y'] }], { opset: 6 });
    await expect(loadOnnx(context, bytes)).rejects.toThrow('another one before version 7');
  }
  await expect(loadOnnx(context, model([{ op: 'Relu', inputs: ['x'], outputs: ['y'] }], { opset: 5 }))).rejects.toThrow('another one before version 6');
});

test('a domain whose version the model does not say is there', async () => {
  const undeclared = (node) => run(model([{ inputs: ['x'], outputs: ['y'], ...node }], { declares: false }));
  expect(await undeclared({ op: 'FusedMatMul', domain: 'com.microsoft', inputs: ['x', 'x'] })).toEqual([9, 20, 0, 4]);
  expect(await undeclared({ op: 'Normalizer', domain: 'ai.onnx.ml', attributes: { norm: 'MAX' } })).toEqual([0.75, 1, 0, 1]);
});

test('initializers of strings refuse nodes that read them, and no others', async () => {
  const strings = { name: 'labels', dims: [2], dataType: 8, stringData: [Buffer.from('cat'), Buffer.from('dog')] };
  const initializers = [strings, tensor('b', 'float', [2], Float32Array.of(1, -4))];
  const add = { op: 'Add', inputs: ['x', 'b'], outputs: ['y'] };
  expect(await run(model([add], { initializers }))).toEqual([4, 0, 1, -2]);
  await expect(run(model([{ op: 'Identity', inputs: ['labels'], outputs: ['y'] }], { initializers }))).rejects.toThrow('strings');
  await expect(run(model([add], { initializers, outputs: [{ name: 'y' }, { name: 'labels' }] }))).rejects.toThrow('strings');
  // In a branch, by its name around it.
  const graph = (op, name) => ({ graph: { inputs: [], outputs: [{ name: 'z' }], nodes: [{ op, inputs: [name], outputs: ['z'] }] } });
  const choice = { op: 'If', inputs: ['c'], outputs: ['y'], attributes: { then_branch: graph('Identity', 'labels'), else_branch: graph('Identity', 'x') } };
  const known = [...initializers, tensor('c', 'bool', [], Uint8Array.of(0))];
  await expect(run(model([choice], { initializers: known }))).rejects.toThrow('strings');
});
