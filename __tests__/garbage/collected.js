'use strict';

// C11: what the garbage collector finalizes is released; and what is needed is not collected.

const fs = require('node:fs');
const { setImmediate: nextRound } = require('node:timers/promises');
const v8 = require('node:v8');
const vm = require('node:vm');
const { ml, MLGraphBuilder } = require('../..');
const { buildAdder, createTensors, float32, read } = require('../adder.js');

v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');

/** Finalizers run in turns of the event loop of their own. */
async function collectOnce() {
  collect();
  await nextRound();
}

/** Collects until something is so; where it never is, the test takes longer than it may. */
async function collectUntil(isSo) {
  do await collectOnce();
  while (!isSo());
}

let context;
beforeEach(async () => {
  context = await ml.createContext();
});
afterEach(() => context.destroy());

test('tensors', async () => {
  await (async () => {
    await createTensors(context, 10, float32(1000));
    await context.createConstantTensor(float32(1000), new Float32Array(1000));
  })();
  await collectUntil(() => context.memoryUsage().tensors === 0);
});

test('graphs', async () => {
  await (async () => {
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(1000));
    await builder.build({ y: builder.add(x, builder.constant(float32(1000), Float32Array.from({ length: 1000 }, (_, i) => i))) });
  })();
  await collectUntil(() => context.memoryUsage().graphs === 0);
});

/** A weak reference to what a promise gave. V8 itself holds on to the value that was awaited last. */
async function weakly(make) {
  const reference = new WeakRef(await make());
  await make();
  return reference;
}

test('contexts', async () => {
  const gone = await weakly(() => ml.createContext());
  await collectUntil(() => gone.deref() === undefined);
});

/** How many contexts' threads this process has. */
function timelines() {
  const names = fs.readdirSync('/proc/self/task').map((id) => {
    try {
      return fs.readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim();
    } catch {
      return 'ended meanwhile';
    }
  });
  return names.filter((name) => name === 'webnn timeline').length;
}

// Only Linux lists the threads of a process with their names.
(process.platform === 'linux' ? test : test.skip)('the thread of a context ends with it', async () => {
  // One that has answered has begun.
  const make = async () => {
    const made = await ml.createContext();
    made.memoryUsage();
    return made;
  };
  context.memoryUsage();
  const before = timelines();
  const made = await Promise.all([1, 2, 3, 4].map(make));
  made.splice(0, 2).forEach((each) => each.destroy());
  made.length = 0;
  // V8 may still hold the last.
  await collectUntil(() => timelines() <= before + 1);
});

test('a buffer that was read is script\'s alone', async () => {
  const [tensor] = await createTensors(context, 1);
  const gone = await weakly(() => context.readTensor(tensor));
  await collectUntil(() => gone.deref() === undefined);
  expect(tensor.shape).toEqual([2]);
});

test('a context lives for as long as a tensor, a graph or a builder of it', async () => {
  const make = async () => {
    const other = await ml.createContext();
    const builder = new MLGraphBuilder(other);
    return [new WeakRef(other), builder, builder.input('x', float32(2))];
  };
  const [reference, builder, x] = await make();
  for (let i = 0; i < 3; i++) await collectOnce();
  const y = builder.relu(x);
  await builder.build({ y });
  reference.deref().destroy();
});

test('pending work keeps what it needs', async () => {
  const start = async () => {
    const other = await ml.createContext();
    const graph = await buildAdder(other, float32(1000));
    const [a, b, c] = await createTensors(other, 3, float32(1000));
    other.writeTensor(a, new Float32Array(1000).fill(2));
    for (let i = 0; i < 100; i++) other.dispatch(graph, { a, b }, { c });
    return read(other, c);
  };
  const reading = start();
  for (let i = 0; i < 3; i++) await collectOnce();
  expect((await reading)[999]).toBe(2);
});

test('dispatches complete although their tensors and graph were collected', async () => {
  const [c] = await createTensors(context, 1);
  await (async () => {
    const graph = await buildAdder(context);
    const [a, b] = await createTensors(context, 2);
    context.writeTensor(a, new Float32Array([1, 2]));
    context.dispatch(graph, { a, b }, { c });
  })();
  await collectUntil(() => context.memoryUsage().tensors === 8);
  expect(await read(context, c)).toEqual([1, 2]);
});
