'use strict';

// webnn-node/onnxruntime beside onnxruntime-node: first what it computes.

const theirs = require('onnxruntime-node');
const ours = require('../lib/onnxruntime.js');
const { writeModel } = require('./onnx/write.js');

const model = writeModel({
  opset: 17,
  inputs: [{ name: 'a', type: 'float', shape: ['n', 3] }, { name: 'b', type: 'float', shape: ['n', 3] }],
  outputs: [{ name: 'c', type: 'float', shape: ['n', 3] }, { name: 'd', type: 'float', shape: ['n', 3] }],
  nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['c'] }, { op: 'Mul', inputs: ['a', 'b'], outputs: ['d'] }],
});

test('computes what onnxruntime-node computes', async () => {
  const [session, other] = await Promise.all([ours, theirs].map(({ InferenceSession }) => InferenceSession.create(model)));
  expect(session).toBeInstanceOf(ours.InferenceSession);
  expect(session).toBeInstanceOf(theirs.InferenceSession);
  const a = new ours.Tensor('float32', [1, 2, 3, 4, 5, 6], [2, 3]);
  const b = new ours.Tensor('float32', [7, 8, 9, 10, 11, 12], [2, 3]);
  expect(await session.run({ a, b })).toEqual(await other.run({ a, b }));
  expect(session.inputMetadata).toEqual(other.inputMetadata);
  expect(session.outputMetadata).toEqual(other.outputMetadata);
  await session.release();
});
