'use strict';

// Calls of generate() that come at any time, and go, are cancelled, are left and fail; models and contexts that go while calls are under way. Each
// call has the tokens that it would have alone, as far as it goes.

const assert = require('node:assert');
const { ml } = require('../..');
const { GenerationCache, generate } = require('../../lib/generate.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { TOKENS, decoder } = require('../generate/decoders.js');
const { generator } = require('./random.js');

const KINDS = ['concat', 'GroupQueryAttention', 'MultiHeadAttention', 'genai'];
/** Calls that are under way at most. */
const AT_ONCE = 12;
const PROMPTS = 24;
const LONGEST = 150;
const COUNT = 40;
/** Where the two most probable tokens are closer, a step of several sequences may choose the other one. */
const CLOSE = 1e-3;

const EVERY = new Uint32Array(Math.ceil(TOKENS / 32)).fill(-1);

/** A constraint that allows everything. `fails` is before which token its mask fails. */
function anything(fails = Infinity) {
  const begin = () => {
    let count = 0;
    const mask = () => {
      if (++count > fails) throw new Error('on purpose');
      return EVERY;
    };
    const maskAsync = async () => {
      await new Promise((resolve) => { setImmediate(resolve); });
      return mask();
    };
    return { mask, maskAsync, push() {}, isDone: false };
  };
  return { begin };
}

class GenerationSoak {
  #random;
  #prompts;
  #context;
  /** By kind. */
  #models = new Map();
  /** By model. */
  #caches = new Map();
  /** What each prompt alone gives, by kind and number. */
  #alone = new Map();
  #underWay = new Set();
  /** Of the first call that was not as it should be. */
  #failure;
  /** How often the context has gone. */
  #lost = 0;
  counts = { calls: 0, tokens: 0 };

  constructor(seed) {
    this.#random = generator(seed);
    // Some begin alike.
    this.#prompts = Array.from({ length: PROMPTS }, (_, i) => {
      const random = generator(i % 3);
      const own = generator(100 + i);
      const length = 1 + own(LONGEST);
      return Array.from({ length }, (_token, at) => (at < length / 2 ? random(TOKENS) : own(TOKENS)));
    });
  }

  async start() {
    await this.#open();
    for (const [kind, model] of this.#models) {
      for (let number = 0; number < PROMPTS; number++) {
        const found = [];
        for await (const { id, top } of generate(model, this.#prompts[number], { maxNewTokens: COUNT, topLogprobs: 2, cache: new GenerationCache({ maxBytes: 0 }) })) {
          // What comes behind a tie may be anything.
          if (top[0].logprob - top[1].logprob < CLOSE) break;
          found.push(id);
        }
        this.#alone.set(`${kind} ${number}`, found);
      }
    }
  }

  async #open() {
    this.#context = await ml.createContext({ accelerated: false });
    this.#caches.clear();
    for (const kind of KINDS) await this.#load(kind);
  }

  async #load(kind) {
    const model = await loadOnnx(this.#context, decoder(kind), { label: kind });
    this.#caches.set(model, new GenerationCache({ maxBytes: 1 << 20 }));
    this.#models.set(kind, model);
  }

  async end() {
    await Promise.all(this.#underWay);
    this.#context.destroy();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** A call comes, or one that is under way goes on; now and then a model or everything goes. */
  async step() {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#random(400) === 0) await this.#lose();
    else if (this.#random(100) === 0) await this.#reload();
    if (this.#underWay.size < AT_ONCE && this.#random(3) > 0) return this.#begin();
    await Promise.race([...this.#underWay, new Promise((resolve) => { setImmediate(resolve); })]);
  }

  #count(what) {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  async #lose() {
    this.#count('lost');
    this.#lost++;
    this.#context.destroy();
    await this.#open();
  }

  /** Calls that are under way on the old one end as they would. */
  async #reload() {
    this.#count('reloaded');
    const kind = this.#pick(KINDS);
    const old = this.#models.get(kind);
    await this.#load(kind);
    // A generation that has begun keeps it until it ends.
    await Promise.all([...this.#underWay].filter((call) => call.model === old));
    this.#caches.get(old)?.destroy();
    this.#caches.delete(old);
    old.destroy();
  }

  #pick(list) {
    return list[this.#random(list.length)];
  }

  #begin() {
    const kind = this.#pick(KINDS);
    const way = this.#pick(['whole', 'whole', 'whole', 'constrained', 'guessing', 'cancelled', 'cancelled', 'left', 'left', 'failing', 'late']);
    const model = this.#models.get(kind);
    const call = this[way](model, kind, this.#random(PROMPTS)).catch((error) => {
      this.#failure ??= error;
    }).finally(() => this.#underWay.delete(call));
    call.model = model;
    this.#underWay.add(call);
    this.#count(way);
    this.counts.calls++;
  }

  /** Options that change no token. */
  #options(model) {
    return {
      maxNewTokens: 1 + this.#random(COUNT),
      priority: this.#pick(['high', 'normal', 'low']),
      ...(this.#random(2) === 0 && { cache: this.#caches.get(model) }),
      ...(this.#random(4) === 0 && { sequences: 2 }),
      ...(this.#random(4) === 0 && { topLogprobs: 2 }),
    };
  }

  /** Runs a call; its tokens are those of the prompt alone. `each` may leave it: then it gives false. */
  async #run(model, kind, number, options, each = () => true) {
    const expected = this.#alone.get(`${kind} ${number}`);
    const counts = new Map();
    for await (const { id, sequence } of generate(model, this.#prompts[number], options)) {
      const at = counts.get(sequence) ?? 0;
      counts.set(sequence, at + 1);
      this.counts.tokens++;
      if (at < expected.length) assert.strictEqual(id, expected[at], `${kind}, prompt ${number}, token ${at}`);
      if (!each()) return;
    }
    assert.deepStrictEqual([...counts.values()], new Array(options.sequences ?? 1).fill(options.maxNewTokens), `${kind}, prompt ${number}`);
  }

  /** What a call rejects with, which may be that its context has gone. */
  async #outcome(run) {
    const lost = this.#lost;
    const error = await run.then(() => undefined, (reason) => reason);
    if (error instanceof assert.AssertionError) throw error;
    return this.#lost === lost ? error : undefined;
  }

  async whole(model, kind, number) {
    assert.ifError(await this.#outcome(this.#run(model, kind, number, this.#options(model))));
  }

  async constrained(model, kind, number) {
    assert.ifError(await this.#outcome(this.#run(model, kind, number, { ...this.#options(model), constraint: anything() })));
  }

  async guessing(model, kind, number) {
    assert.ifError(await this.#outcome(this.#run(model, kind, number, { ...this.#options(model), speculate: 'prompt' })));
  }

  async cancelled(model, kind, number) {
    const controller = new AbortController();
    const reason = new Error('enough');
    // Before it begins, at any turn of the event loop, or at a token.
    let [turns, tokens] = [this.#random(60), this.#random(COUNT)];
    const turn = () => (turns-- > 0 ? setImmediate(turn) : controller.abort(reason));
    if (this.#random(2) === 0) turn();
    const each = () => {
      if (tokens-- === 0) controller.abort(reason);
      return true;
    };
    const constraint = this.#random(2) === 0 ? anything() : undefined;
    const error = await this.#outcome(this.#run(model, kind, number, { ...this.#options(model), constraint, signal: controller.signal }, each));
    assert.ok(error === undefined || error === reason, error);
  }

  async left(model, kind, number) {
    let tokens = this.#random(COUNT);
    assert.ifError(await this.#outcome(this.#run(model, kind, number, this.#options(model), () => tokens-- > 0)));
  }

  async failing(model, kind, number) {
    let tokens = this.#random(10);
    const fail = () => {
      if (tokens-- === 0) throw new Error('on purpose');
    };
    const options = this.#pick([{ logits: fail }, { until: fail }, { constraint: anything(tokens) }]);
    const error = await this.#outcome(this.#run(model, kind, number, { ...this.#options(model), ...options }));
    assert.ok(error === undefined || error.message === 'on purpose', error);
  }

  async late(model, kind, number) {
    const error = await this.#outcome(this.#run(model, kind, number, { ...this.#options(model), timeout: 1 + this.#random(3) }));
    assert.ok(error === undefined || error.name === 'TimeoutError', error);
  }
}

module.exports = { GenerationSoak };
