'use strict';

// docs/extensions.md C19 to C21 for runs of models, compute() and generate(): random programs of calls with priorities, deadlines and signals, in
// contexts that limit their number. Each call gives what it gives alone, or the error that was asked for.

const { setImmediate: turn, setTimeout: sleep } = require('node:timers/promises');
const { ml, MLGraphBuilder } = require('webnn-node');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { float32 } = require('./adder.js');
const { KINDS, TOKENS, decoder } = require('./generate/decoders.js');
const { writeModel } = require('./onnx/write.js');
const { generator } = require('./stress/random.js');

const SIZE = 64;
const STEPS = 150;
const KINDS_OF_CALLS = ['model', 'compute', 'generate'];
const PRIORITIES = ['high', 'normal', 'low'];
const PROMPTS = [3, 7, 12].map((length) => Array.from({ length }, (_, i) => (i * length) % TOKENS));

/** `y = x + x`, of any number of rows. */
const doubling = writeModel({
  opset: 17,
  inputs: [{ name: 'x', type: 'float', shape: ['rows', SIZE] }],
  outputs: [{ name: 'y', type: 'float', shape: ['rows', SIZE] }],
  nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
});

/** `c = a - b` */
async function buildDifference(context) {
  const builder = new MLGraphBuilder(context);
  return builder.build({ c: builder.sub(builder.input('a', float32(SIZE)), builder.input('b', float32(SIZE))) });
}

const filled = (count, value) => new Float32Array(count).fill(value);
/** The number that all elements are. */
function only(elements) {
  const [first] = elements;
  if (elements.some((element) => element !== first)) throw new Error('the elements differ');
  return first;
}

class Program {
  #random;
  #context;
  #model;
  #graph;
  #decoder;
  #said;
  #mostWaiting;
  /** Calls that have not ended, and those that were cancelled; these, and what is overdue, end natively some time later. */
  #open = 0;
  #cancelled = 0;
  /** What may still be cancelled. */
  #controllers = new Set();
  counts = { fulfilled: 0, refused: 0, late: 0, cancelled: 0 };

  constructor(seed) {
    this.#random = generator(seed);
  }

  async run(options, batching) {
    this.#mostWaiting = options.maxQueue ?? Infinity;
    this.#context = await ml.createContext({ accelerated: false, numThreads: 2, ...options });
    this.#model = await loadOnnx(this.#context, doubling, { batching });
    this.#graph = await buildDifference(this.#context);
    this.#decoder = await loadOnnx(this.#context, decoder(KINDS[0]));
    this.#said = [];
    for (const prompt of PROMPTS) this.#said.push(await this.#tokens(prompt, {}, []));
    const calls = [];
    for (let step = 0; step < STEPS; step++) {
      if (this.#random(3) === 0) this.#cancel();
      if (this.#random(20) === 0) await sleep(this.#random(5));
      const isAwaited = this.#random(4) === 0;
      if (isAwaited) await this.#context.ready();
      const kind = KINDS_OF_CALLS[this.#random(3)];
      calls.push(this.#call(kind, isAwaited));
      // It takes its place some promises after the call, but in the same turn: nobody else may ask in between.
      if (kind === 'generate') await turn();
    }
    await Promise.all(calls);
    // Nothing was lost on the way: what is asked for now is done.
    for (const kind of KINDS_OF_CALLS) {
      await this.#context.ready();
      await this.#start(kind, {}, []).promise;
    }
    this.#context.destroy();
  }

  #cancel() {
    const [controller] = this.#controllers;
    if (controller === undefined) return;
    this.#controllers.delete(controller);
    this.#cancelled++;
    controller.abort(controller.reason);
  }

  #options() {
    const options = {};
    if (this.#random(3) > 0) options.priority = PRIORITIES[this.#random(3)];
    if (this.#random(6) === 0) options.timeout = this.#random(3) * 10;
    if (this.#random(3) > 0) return options;
    const controller = new AbortController();
    controller.reason = new Error('cancelled');
    this.#controllers.add(controller);
    return { ...options, signal: controller.signal, controller };
  }

  /** A call with its end, which is one of those that it may have. */
  async #call(kind, isAwaited) {
    const { controller, ...options } = this.#options();
    const mayBeRefused = this.#open + this.#cancelled + this.counts.late >= this.#mostWaiting;
    this.#open++;
    const said = [];
    const { promise, expected } = this.#start(kind, options, said);
    try {
      expect(await promise).toEqual(expected);
      if (options.timeout === 0) throw new Error('it was overdue when it was asked for');
      this.counts.fulfilled++;
    } catch (error) {
      if (error.name === 'QuotaExceededError') {
        expect([isAwaited, mayBeRefused]).toEqual([false, true]);
        expect(error.waiting).toBeGreaterThanOrEqual(this.#mostWaiting);
        this.counts.refused++;
      } else if (error.name === 'TimeoutError') {
        expect(options.timeout).toBeDefined();
        this.counts.late++;
      } else {
        if (controller === undefined || !controller.signal.aborted || error !== controller.reason) throw error;
        this.counts.cancelled++;
      }
      // What it has said until then is right.
      expect(said).toEqual(Array.isArray(expected) ? expected.slice(0, said.length) : []);
    } finally {
      this.#open--;
      this.#controllers.delete(controller);
    }
  }

  /** A call of that kind, and what it gives alone. */
  #start(kind, options, said) {
    if (kind === 'generate') {
      const i = this.#random(PROMPTS.length);
      return { expected: this.#said[i], promise: this.#tokens(PROMPTS[i], options, said) };
    }
    const [a, b] = [this.#random(100), this.#random(100)];
    if (kind === 'compute') {
      const computed = this.#context.compute(this.#graph, { a: filled(SIZE, a), b: filled(SIZE, b) }, { c: filled(SIZE, -1) }, options);
      return { expected: a - b, promise: computed.then(({ outputs }) => only(outputs.c)) };
    }
    const rows = 1 + this.#random(4);
    const run = this.#model.run({ x: { data: filled(rows * SIZE, a), shape: [rows, SIZE] } }, options);
    return { expected: 2 * a, promise: run.then(({ y }) => only(y.data)) };
  }

  async #tokens(prompt, options, said) {
    for await (const { id } of generate(this.#decoder, prompt, { maxNewTokens: 5, ...options })) said.push(id);
    return said;
  }
}

const first = Number(process.env.WEBNN_SEED ?? 20_261_130);
test.each([
  ['no limit', {}, undefined],
  ['at most 4 calls', { maxQueue: 4 }, undefined],
  ['at most 6 calls of a context that is not urgent, and runs that are joined', { maxQueue: 6, priority: 'low' }, true],
  ['one thread', { maxQueue: 12, numThreads: 1 }, true],
])('%s', async (_, options, batching) => {
  const found = { fulfilled: 0, refused: 0, late: 0, cancelled: 0 };
  for (let i = 0; i < 3; i++) {
    const program = new Program(first + i);
    console.log(`seed ${first + i} (WEBNN_SEED)`);
    await program.run(options, batching);
    for (const end of Object.keys(found)) found[end] += program.counts[end];
  }
  // Each end is there, but for what depends on how fast the machine is.
  expect([found.fulfilled > 0, found.late > 0, found.refused > 0]).toEqual([true, true, options.maxQueue !== undefined]);
});
