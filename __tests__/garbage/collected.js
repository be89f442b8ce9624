'use strict';

// C11: what the garbage collector finalizes is released; and what is needed is not collected.

const fs = require('node:fs');
const { setImmediate: nextRound } = require('node:timers/promises');
const v8 = require('node:v8');
const vm = require('node:vm');
const { ml, MLGraphBuilder } = require('../..');
const { GenerationCache, generate, generateText } = require('../../lib/generate.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { decoder } = require('../generate/decoders.js');
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

describe('calls of generate() whose iterators script forgets', () => {
  const MOST = 4;
  const tokenizer = { encode: () => [1, 2, 3], decode: (ids) => ids.map((id) => String.fromCharCode(65 + id)).join('') };
  const options = () => ({ maxNewTokens: 100, sequences: 2, cache: new GenerationCache({ maxBytes: 0 }) });
  const kinds = {
    generate: (model) => generate(model, [1, 2, 3], options()),
    generateText: (model) => generateText(model, tokenizer, 'abc', options()),
    // What it is given leads to it.
    'generate with hooks and a signal that know it': (model) => {
      const controller = new AbortController();
      const known = {};
      known.call = generate(model, [1, 2, 3], { ...options(), until: () => known.call === undefined, logits: () => void known.call, signal: controller.signal });
      controller.signal.addEventListener('abort', () => known.call.return());
      return known.call;
    },
  };

  async function someTokens(call, count) {
    for (let i = 0; i < count; i++) await call.next();
  }

  test.each(Object.keys(kinds))('end: %s', async (kind) => {
    const other = await ml.createContext({ accelerated: false, maxQueue: MOST });
    const model = await loadOnnx(other, decoder('GroupQueryAttention'));
    const kept = kinds[kind](model);
    await someTokens(kept, 2);
    const withOne = model.memoryUsage().caches;
    expect(withOne).toBeGreaterThan(0);
    await (async () => {
      const calls = Array.from({ length: MOST - 1 }, () => kinds[kind](model));
      await Promise.all(calls.map((call) => someTokens(call, 2)));
      await expect(kinds[kind](model).next()).rejects.toThrow('maxQueue');
    })();
    // Their caches go, and so do their places.
    await collectUntil(() => model.memoryUsage().caches <= withOne);
    const again = Array.from({ length: MOST - 1 }, () => kinds[kind](model));
    await Promise.all(again.map((call) => someTokens(call, 2)));
    await Promise.all(again.map((call) => call.return()));
    // The one that is known goes on.
    expect((await kept.next()).done).toBe(false);
    await kept.return();
    await other.ready();
    other.destroy();
  });

  test('do not keep a model from being destroyed', async () => {
    const model = await loadOnnx(context, decoder('GroupQueryAttention'));
    await (async () => someTokens(kinds.generate(model), 2))();
    model.destroy();
    await collectUntil(() => context.memoryUsage().graphs === 0);
  });
});
