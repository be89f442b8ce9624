'use strict';

// Inputs and outputs that are declared as scalars: sessions take any shape for them, as programs of voice activity detection feed `[1]`.

const { tensor, value, writeModel } = require('./models.js');

const cast = (of, to) => ({ op: 'Cast', inputs: [of], outputs: [to], attributes: { to: 1 } });
const add = { op: 'Add', inputs: ['x', 'f'], outputs: ['y'] };

/** `y = x + s` with rows and sizes that are open, or with known ones. */
const sum = (rows, output) =>
  writeModel({ opset: 16, inputs: [value('x', 'float', rows, 4), value('s', 'int64')], outputs: [output], nodes: [cast('s', 'f'), add] });

/** `y` is a multiple of `x`: which one a branch on the sampling rate decides, as voice activity detectors have it. */
const branch = () => {
  const times = (factor) => ({
    graph: {
      inputs: [],
      outputs: [{ name: `y${factor}` }],
      initializers: [tensor(`by${factor}`, 'float', [], Float32Array.of(factor))],
      nodes: [{ op: 'Mul', inputs: ['x', `by${factor}`], outputs: [`y${factor}`] }],
    },
  });
  return writeModel({
    opset: 16,
    inputs: [value('x', 'float', 'n', 4), value('s', 'int64')],
    outputs: [value('y', 'float', 'n', 4)],
    initializers: [tensor('rate', 'int64', [], BigInt64Array.of(16000n))],
    nodes: [
      { op: 'Equal', inputs: ['s', 'rate'], outputs: ['is'] },
      { op: 'If', inputs: ['is'], outputs: ['y'], attributes: { then_branch: times(2), else_branch: times(3) } },
    ],
  });
};

const MODELS = {
  'known sizes': sum(1, value('y', 'float', 1, 4)),
  'open sizes': sum('n', value('y', 'float', 'n', 4)),
  'an output that is declared as a scalar': sum('n', value('y', 'float')),
  'a branch': branch(),
};

const seen = ({ y }) => [y.type, y.dims, [...y.data]];

/** @type {Record<string, (ort: typeof import('onnxruntime-common')) => unknown>} */
const rows = {};
for (const [name, model] of Object.entries(MODELS)) {
  rows[`scalars: ${name}: metadata`] = async (ort) => {
    const { inputMetadata, outputMetadata } = await ort.InferenceSession.create(model);
    // Of such an output more is known here.
    return [inputMetadata, name.startsWith('an output') ? [] : outputMetadata];
  };
  for (const dims of [[], [1], [1, 1], [4], [2, 1], [0]]) {
    if (name === 'a branch' && dims.some((size) => size !== 1)) continue;
    const count = dims.reduce((product, size) => product * size, 1);
    rows[`scalars: ${name}: [${dims}]`] = async (ort) => {
      const session = await ort.InferenceSession.create(model);
      const results = [];
      // Twice, since a plan for other shapes is beside the first one.
      for (const first of [16000, 8000]) {
        const s = new ort.Tensor('int64', Array.from({ length: count }, (_, i) => first + i), dims);
        const x = new ort.Tensor('float32', [1, 2, 3, 4], [1, 4]);
        if (dims[0] === 0) results.push(await session.run({ x, s }).then(seen, ({ name: error }) => error));
        else results.push(seen(await session.run({ x, s })), seen(await session.run({ x, s }, { y: new ort.Tensor('float32', new Float32Array(dims[0] === 2 ? 8 : 4), dims[0] === 2 ? [2, 4] : [1, 4]) })));
      }
      return results;
    };
  }
}

// Beside caches, where a truth value decides which graph a step has.
const beside = writeModel({
  opset: 17,
  inputs: [value('x', 'float', 1, 1, 's', 4), value('past', 'float', 1, 1, 'p', 4), value('flag', 'bool')],
  outputs: [value('y', 'float', 1, 1, 's', 4), value('present', 'float', 1, 1, 't', 4)],
  nodes: [{ op: 'Concat', inputs: ['past', 'x'], outputs: ['present'], attributes: { axis: 2 } }, cast('flag', 'f'), { op: 'Add', inputs: ['x', 'f'], outputs: ['y'] }],
});
for (const dims of [[], [1], [4], [1, 1, 1], [0]]) {
  const count = dims.reduce((product, size) => product * size, 1);
  rows[`scalars: beside caches: [${dims}]`] = async (ort) => {
    const session = await ort.InferenceSession.create(beside);
    const results = [];
    let past = new ort.Tensor('float32', [], [1, 1, 0, 4]);
    for (let step = 0; step < 3; step++) {
      const flag = new ort.Tensor('bool', Uint8Array.from({ length: count }, (_, i) => (i + step) % 2), dims);
      const { y, present } = await session.run({ x: new ort.Tensor('float32', [1, 2, 3, step], [1, 1, 1, 4]), past, flag });
      results.push(seen({ y }), present.dims, [...present.data]);
      past = present;
    }
    return results;
  };
}

module.exports = { MODELS, rows };
