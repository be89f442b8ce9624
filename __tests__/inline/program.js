'use strict';

// What has to hold whether runs are computed on the JavaScript thread or on the timeline's (WEBNN_INLINE): prints what it found.

const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('../onnx/write.js');
const { runProgram } = require('../stress/programs.js');

const floats = (...numbers) => Float32Array.from(numbers);

/** y = x + 1 for a positive first element, and else -x: which of them is known when the model runs. Each branch is too large to compute both. */
function choosing() {
  const chain = (op, name) => Array.from({ length: 40 }, (_, i) => ({ op, inputs: [i === 0 ? 'x' : `${name}${i - 1}`], outputs: [`${name}${i}`] }));
  const then = [...chain('Identity', 'a'), { op: 'Add', inputs: ['a39', 'one'], outputs: ['b'] }];
  const other = [...chain('Identity', 'c'), { op: 'Neg', inputs: ['c39'], outputs: ['d'] }, { op: 'Concat', inputs: ['d', 'd'], outputs: ['e'], attributes: { axis: 0 } }];
  return writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [3] }],
    outputs: [{ name: 'y' }],
    initializers: [tensor('one', 'float', [], floats(1)), tensor('zero', 'int64', [], BigInt64Array.of(0n)), tensor('nought', 'float', [], floats(0))],
    nodes: [
      { op: 'Gather', inputs: ['x', 'zero'], outputs: ['first'], attributes: { axis: 0 } },
      { op: 'Greater', inputs: ['first', 'nought'], outputs: ['condition'] },
      {
        op: 'If',
        inputs: ['condition'],
        outputs: ['y'],
        attributes: { then_branch: { graph: { inputs: [], outputs: [{ name: 'b' }], nodes: then } }, else_branch: { graph: { inputs: [], outputs: [{ name: 'e' }], nodes: other } } },
      },
    ],
  });
}

const WORK = {
  /** Random programs read what a sequential model reads. */
  async programs() {
    let promises = 0;
    for (let seed = 1; seed <= 8; seed++) promises += await runProgram(require('../..'), seed, 150);
    return promises > 100;
  },
  /** However fast results come, each has a turn of the event loop: so many others go by at least. */
  async turns(context) {
    const model = await loadOnnx(context, adding());
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns++;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    for (let i = 0; i < 100; i++) await model.run({ x: floats(i, 2, 3) });
    isOver = true;
    return turns >= 99;
  },
  async cut(context) {
    const model = await loadOnnx(context, choosing());
    const found = [];
    for (let i = 0; i < 6; i++) found.push([...(await model.run({ x: floats(i % 2 === 0 ? 1 : -1, 2, 3) })).y.data]);
    const both = await Promise.all([1, -1, 5].map((first) => model.run({ x: floats(first, 2, 3) })));
    return [...found, ...both.map(({ y }) => [...y.data])];
  },
  /** What is given up, or destroyed, before its promise settles is rejected. */
  async rejected(context) {
    const model = await loadOnnx(context, adding());
    await model.run({ x: floats(1, 2, 3) });
    const controller = new AbortController();
    const aborted = Promise.allSettled([model.run({ x: floats(1, 2, 3) }, { signal: controller.signal })]);
    controller.abort(new Error('enough'));
    const own = await ml.createContext({ accelerated: false });
    const other = await loadOnnx(own, adding());
    await other.run({ x: floats(1, 2, 3) });
    const lost = Promise.allSettled([other.run({ x: floats(1, 2, 3) })]);
    own.destroy();
    const reasons = [...(await aborted), ...(await lost)].map(({ reason }) => reason);
    return reasons.map((reason) => (reason?.name === 'Error' ? reason.message : reason?.name));
  },
};

const adding = () =>
  writeModel({
    opset: 17,
    inputs: [{ name: 'x', type: 'float', shape: [3] }],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
  });

async function main() {
  const context = await ml.createContext({ accelerated: false });
  const found = {};
  for (const [name, work] of Object.entries(WORK)) found[name] = await work(context);
  console.log(JSON.stringify(found));
}

main();
