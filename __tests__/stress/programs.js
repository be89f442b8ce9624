'use strict';

// Random programs over a few tensors and graphs, beside a model that does one thing after the other: whatever is read has
// to be what the model has, and every promise has to be settled.

const assert = require('node:assert');
const { generator } = require('./random.js');

const TENSORS = 5;

/**
 * What tensors are: their type and shape, the array that has them, and a number as an element of it. Where elements are only moved they
 * are what the array has, the bits of a float16.
 */
const KINDS = {
  int32: { dataType: 'int32', shape: [3], array: Int32Array, held: (x) => x | 0 },
  // Elements that share words, the last of which is not full.
  int8: { dataType: 'int8', shape: [1, 5], array: Int8Array, held: (x) => (x << 24) >> 24 },
  uint8: { dataType: 'uint8', shape: [], array: Uint8Array, held: (x) => x & 255 },
  uint32: { dataType: 'uint32', shape: [2, 2], array: Uint32Array, held: (x) => x >>> 0 },
  int64: { dataType: 'int64', shape: [], array: BigInt64Array, held: (x) => BigInt.asIntN(64, BigInt(x)) },
  // Zeros are compared without their signs.
  float32: { dataType: 'float32', shape: [2, 1, 2], array: Float32Array, held: (x) => Math.fround(x) + 0 },
  // Of finite numbers.
  float16: { dataType: 'float16', shape: [3], array: Uint16Array, held: (x) => x & 0x3fff, isMoved: true },
};

/** Graphs by what they do: from two inputs to two outputs. */
const GRAPHS = [
  { build: (builder, a, b) => [builder.add(a, b), builder.sub(a, b)], model: (a, b, held) => [held(a + b), held(a - b)] },
  { build: (builder, a, b) => [builder.max(a, b), builder.sub(b, a)], model: (a, b, held) => [a > b ? a : b, held(b - a)] },
  { build: (builder, a, b) => [builder.identity(b), builder.min(a, b)], model: (a, b) => [b, a < b ? a : b] },
];

/** Of elements that are only moved. */
const MOVES = [
  { build: (builder, a, b) => [builder.identity(b), builder.identity(a)], model: (a, b) => [b, a] },
  { build: (builder, a, b) => [builder.identity(a), builder.identity(b)], model: (a, b) => [a, b] },
];

class Program {
  created = 0;
  settled = 0;
  #webnn;
  #random;
  #context;
  #tensors = [];
  #values = [];
  #graphs = [];
  /** Promises with what they have to become. */
  #pending = [];
  /** A device that tensors are rented to, if there is one, and what it has. */
  #sharing;
  #rented = [];
  #kind;
  #work;

  constructor(webnn, seed, sharing) {
    this.#kind = KINDS[sharing?.kind ?? 'int32'];
    this.#work = this.#kind.isMoved ? MOVES : GRAPHS;
    this.#webnn = webnn;
    this.#random = generator(seed);
    this.#sharing = sharing;
  }

  async run(steps) {
    this.#context = await this.#count(this.#webnn.ml.createContext(this.#sharing?.target ?? { accelerated: false, numThreads: this.#random(2) && 2, performance: [undefined, 'latency', 'throughput', 2][this.#random(4)] }));
    for (let i = 0; i < TENSORS; i++) await this.#createTensor(i);
    for (let i = 0; i < this.#work.length; i++) await this.#build(i);
    const actions = [
      ...Array(4).fill(() => this.#write()),
      ...Array(8).fill(() => this.#dispatch()),
      ...Array(6).fill(() => this.#read()),
      ...Array(2).fill(() => this.#compute()),
      ...Array(2).fill(() => this.#submit()),
      () => this.#replaceTensor(),
      () => this.#replaceGraph(),
      () => this.#breathe(),
      ...(this.#sharing ? [() => this.#rent(), () => this.#rent(), () => this.#giveBack(), () => this.#giveBack(), () => this.#lend(), () => this.#lend(true)] : []),
    ];
    for (let step = 0; step < steps; step++) await actions[this.#random(actions.length)]();
    // The end comes in the middle of everything, or when all is done.
    if (this.#random(2) === 0) await this.#settleAll();
    if (this.#sharing?.end) this.#sharing.end();
    else this.#context.destroy();
    await this.#settleAll(true);
    await this.#count(this.#context.lost);
    const { tensors, graphs, scratch } = this.#context.memoryUsage();
    assert.deepStrictEqual({ tensors, graphs, scratch }, { tensors: 0, graphs: 0, scratch: 0 });
    assert.strictEqual(this.settled, this.created, 'promises that were never settled');
  }

  #count(promise) {
    this.created++;
    promise.then(
      () => this.settled++,
      () => this.settled++,
    );
    return promise;
  }

  /** Whether WebGPU has a tensor's own memory. */
  get #isShared() {
    return this.#sharing !== undefined && this.#sharing.device === this.#sharing.target;
  }

  /** With a device each text of sharing has some: the draft, which refuses work of what is exported, and the two before. */
  async #createTensor(i) {
    const { dataType, shape } = this.#kind;
    const all = { dataType, shape, readable: true, writable: true };
    const form = this.#isExportable(i) ? { exportableToGPU: true } : { importableToWebGPU: true };
    const made = this.#isOfDraft(i)
      ? this.#context.createExportableTensor(all, this.#sharing.device)
      : this.#context.createTensor({ ...all, ...form });
    this.#tensors[i] = await this.#count(made);
    this.#values[i] = [...this.#array()];
  }

  #isOfDraft(i) {
    return this.#sharing !== undefined && i % 3 === 0;
  }

  #isExportable(i) {
    return this.#isShared && i % 3 === 1;
  }

  #build(i) {
    const builder = new this.#webnn.MLGraphBuilder(this.#context);
    const { dataType, shape } = this.#kind;
    const descriptor = { dataType, shape };
    const [c, d] = this.#work[i].build(builder, builder.input('a', descriptor), builder.input('b', descriptor));
    return this.#count(builder.build({ c, d })).then((graph) => {
      this.#graphs[i] = graph;
    });
  }

  #someValues() {
    return Array.from(this.#array(), () => this.#kind.held(this.#random(2 ** 32) | 0));
  }

  /** Of zeros, or of values. */
  #array(values = this.#kind.shape.reduce((count, size) => count * size, 1)) {
    return new this.#kind.array(values);
  }

  /** As WebGPU writes them: whole words. */
  #words(values) {
    const { buffer, byteLength } = this.#array(values);
    const words = new Uint8Array(Math.ceil(byteLength / 4) * 4).fill(0xff);
    words.set(new Uint8Array(buffer));
    return words;
  }

  /** Numbers as they are compared. */
  #plain(view) {
    return Array.from(view, this.#kind.held);
  }

  /** Different tensors. */
  #some(count) {
    const numbers = Array.from({ length: TENSORS }, (_, i) => i);
    return Array.from({ length: count }, () => numbers.splice(this.#random(numbers.length), 1)[0]);
  }

  #apply(graph, a, b) {
    const pairs = a.map((x, i) => this.#work[graph].model(x, b[i], this.#kind.held));
    return [pairs.map(([c]) => c), pairs.map(([, d]) => d)];
  }

  #write() {
    const [i] = this.#some(1);
    const values = this.#someValues();
    const bytes = this.#array(values);
    this.#context.writeTensor(this.#tensors[i], bytes);
    bytes.fill(this.#kind.held(-1));
    this.#values[i] = values;
  }

  #dispatch() {
    const graph = this.#random(this.#work.length);
    const [a, b, c, d] = this.#some(4);
    const [A, B, C, D] = [a, b, c, d].map((i) => this.#tensors[i]);
    this.#context.dispatch(this.#graphs[graph], { a: A, b: B }, { c: C, d: D });
    [this.#values[c], this.#values[d]] = this.#apply(graph, this.#values[a], this.#values[b]);
  }

  /** By the text that the tensor keeps to. */
  async #export(i) {
    const { importExternalBuffer, device } = this.#sharing;
    const source = this.#tensors[i];
    return this.#isOfDraft(i) || this.#isExportable(i) ? this.#context.exportToGPU(source) : importExternalBuffer(device, { source });
  }

  /** WebGPU has it from now on, and writes: what is asked for later sees that, and waits. */
  #rent() {
    const [i] = this.#some(1);
    if (this.#isOfDraft(i) || this.#rented.some(({ tensor }) => tensor === this.#tensors[i])) return;
    const tensor = this.#tensors[i];
    const buffer = this.#count(this.#export(i));
    buffer.catch(() => {});
    const values = this.#someValues();
    this.#rented.push({ tensor, buffer, values });
    this.#values[i] = values;
  }

  /** The earliest, since later ones may wait for it. */
  async #giveBack() {
    const rental = this.#rented.shift();
    if (rental === undefined) return;
    let buffer;
    try {
      buffer = await rental.buffer;
    } catch (error) {
      assert.strictEqual(error.name, 'InvalidStateError', error.stack);
      return;
    }
    this.#sharing.device.queue.writeBuffer(buffer, 0, this.#words(rental.values));
    buffer.destroy();
  }

  async #giveAllBack() {
    while (this.#rented.length > 0) await this.#giveBack();
  }

  /** By the draft; nothing may wait for it. It may be destroyed meanwhile. */
  async #lend(endsThere = false) {
    await this.#giveAllBack();
    const i = 3 * this.#random(2);
    const tensor = this.#tensors[i];
    const buffer = await this.#context.exportToGPU(tensor);
    assert.strictEqual(await this.#context.exportToGPU(tensor), buffer);
    const values = this.#someValues();
    assert.throws(() => this.#context.writeTensor(tensor, this.#array(values)), TypeError);
    await assert.rejects(this.#count(this.#context.readTensor(tensor)), TypeError);
    if (endsThere) await this.#replace(i);
    this.#sharing.device.queue.writeBuffer(buffer, 0, this.#words(values));
    buffer.destroy();
    if (!endsThere) this.#values[i] = values;
  }

  /** A command buffer of WebGPU's that copies one tensor to another, and what it does to the values; they are given back before it is run. */
  async #copy() {
    const [from, to] = this.#some(2);
    const [source, target] = [await this.#export(from), await this.#export(to)];
    const encoder = this.#sharing.device.createCommandEncoder();
    encoder.copyBufferToBuffer(source, 0, target, 0, source.size);
    source.destroy();
    target.destroy();
    return [encoder.finish(), () => (this.#values[to] = this.#values[from])];
  }

  async #submit() {
    const encoder = new this.#webnn.MLCommandEncoder(this.#context);
    const graph = this.#random(this.#work.length);
    encoder.initializeGraph(this.#graphs[graph]);
    const places = Array.from({ length: 1 + this.#random(3) }, () => this.#some(4));
    for (const place of places) {
      const [a, b, c, d] = place.map((i) => this.#tensors[i]);
      encoder.dispatch(this.#graphs[graph], { a, b }, { c, d });
    }
    const commands = encoder.finish();
    const apply = () => {
      for (const [a, b, c, d] of places) [this.#values[c], this.#values[d]] = this.#apply(graph, this.#values[a], this.#values[b]);
    };
    const all = Array.from({ length: this.#random(3) }, () => [commands, apply]);
    if (this.#isShared && this.#random(2) === 0) {
      // What WebGPU's commands use is not known, so nothing of it may wait.
      await this.#giveAllBack();
      for (let i = this.#random(4); i > 0; i--) all.splice(this.#random(all.length + 1), 0, await this.#copy());
    }
    this.#context.submit(all.map(([buffer]) => buffer));
    all.forEach(([, work]) => work());
  }

  #read() {
    const [i] = this.#some(1);
    const tensor = this.#tensors[i];
    const expected = this.#values[i];
    let promise;
    if (this.#random(2) === 0) {
      promise = this.#context.readTensor(tensor).then((buffer) => this.#plain(new this.#kind.array(buffer)));
    } else {
      const into = this.#array();
      promise = this.#context.readTensor(tensor, into).then(() => this.#plain(into));
    }
    this.#expect(promise, expected, () => this.#tensors[i] !== tensor);
  }

  #compute() {
    const number = this.#random(this.#work.length);
    const graph = this.#graphs[number];
    const [a, b] = [this.#someValues(), this.#someValues()];
    const [c, d] = this.#apply(number, a, b);
    const wanted = 1 + this.#random(3);
    const outputs = { ...(wanted & 1 && { c: this.#array() }), ...(wanted & 2 && { d: this.#array() }) };
    const expected = { ...(wanted & 1 && { c }), ...(wanted & 2 && { d }) };
    const plain = (views) => Object.fromEntries(Object.entries(views).map(([name, view]) => [name, this.#plain(view)]));
    const promise = this.#context.compute(graph, { a: this.#array(a), b: this.#array(b) }, outputs).then(
      (result) => {
        assert.deepStrictEqual(plain(result.inputs), { a, b });
        return plain(result.outputs);
      },
      (error) => {
        assert.deepStrictEqual(plain(error.inputs), { a, b });
        assert.deepStrictEqual(Object.keys(error.outputs), Object.keys(outputs));
        throw error;
      },
    );
    this.#expect(promise, expected, () => this.#graphs[number] !== graph);
  }

  async #replaceTensor() {
    const [i] = this.#some(1);
    // Else what it was rented for may never be written, and what waits for it would see that.
    while (this.#rented.some(({ tensor }) => tensor === this.#tensors[i])) await this.#giveBack();
    await this.#replace(i);
  }

  async #replace(i) {
    this.#tensors[i].destroy();
    this.#tensors[i].destroy();
    this.#tensors[i] = undefined;
    await this.#createTensor(i);
  }

  async #replaceGraph() {
    const i = this.#random(this.#work.length);
    this.#graphs[i].destroy();
    this.#graphs[i] = undefined;
    await this.#build(i);
  }

  async #breathe() {
    if (this.#random(4) === 0) return this.#settleAll();
    if (this.#random(2) === 0) await null;
    else {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    return undefined;
  }

  #expect(promise, expected, mayBeRefused) {
    this.#pending.push({ promise: this.#count(promise), expected, mayBeRefused });
    promise.catch(() => {});
  }

  async #settleAll(contextEnded = false) {
    await this.#giveAllBack();
    for (const { promise, expected, mayBeRefused } of this.#pending.splice(0)) {
      let found;
      try {
        found = await promise;
      } catch (error) {
        assert.strictEqual(error.name, 'InvalidStateError', error.stack);
        assert(contextEnded || mayBeRefused(), error.stack);
        continue;
      }
      assert.deepStrictEqual(found, expected);
    }
  }
}

/**
 * Runs one program; throws when anything is not as it should be. `sharing` has a device of WebGPU that tensors are rented to, what
 * the context is made from, importExternalBuffer(), the kind of the tensors, and perhaps what ends the context.
 */
async function runProgram(webnn, seed, steps, sharing = undefined) {
  const program = new Program(webnn, seed, sharing);
  await program.run(steps);
  return program.created;
}

module.exports = { KINDS, runProgram };
