'use strict';

// A small decoder whose adapters are inputs, as onnxruntime-genai's and Olive's exports have them: with initializers of rank 0 for no adapter. The same
// with adapters merged into its weights; and files of adapters.

const { floats, longs, tensor, writeModel } = require('../onnx/write.js');
const { seededNumbers } = require('../seeded-numbers.js');

const TOKENS = 40;
const WIDTH = 32;
const LAYERS = 2;

/** The names of the weights that adapters change. */
const ADAPTED = Array.from({ length: LAYERS }, (_, layer) => [`layers.${layer}.query`, `layers.${layer}.out`]).flat();

/**
 * @param {Record<string, Float32Array>} [merged] what is added to weights, in place of inputs
 * @param {number} [first] the weights are others by it
 * @returns {Uint8Array}
 */
function decoder(merged = undefined, first = 11) {
  const nodes = [];
  const initializers = [];
  const inputs = [
    { name: 'input_ids', type: 'int64', shape: ['batch_size', 'sequence_length'] },
    { name: 'attention_mask', type: 'int64', shape: ['batch_size', 'total_sequence_length'] },
  ];
  const outputs = [{ name: 'logits' }];
  const add = (op, ins, attributes = {}, outs = [`v${nodes.length}`]) => {
    nodes.push({ op, inputs: ins, outputs: outs, attributes });
    return outs[0];
  };
  const constant = (type, shape, values) => {
    const name = `c${initializers.length}`;
    initializers.push(tensor(name, type, shape, type === 'int64' ? longs(...values) : floats(...values)));
    return name;
  };
  const weights = (name, shape, scale = 0.7) => {
    const seed = [...name].reduce((sum, letter) => (31 * sum + letter.charCodeAt(0)) % 65521, first);
    const values = seededNumbers(shape.reduce((a, b) => a * b, 1), scale, seed);
    return constant('float', shape, merged?.[name] ? values.map((x, i) => x + merged[name][i]) : values);
  };
  const product = (x, name, shape) => {
    const usual = add('MatMul', [x, weights(name, shape)]);
    if (merged !== undefined || !ADAPTED.includes(name)) return usual;
    const [a, b] = ['lora_A', 'lora_B'].map((what) => `${name}.${what}.weight`);
    for (const [input, dims, empty] of [[a, [shape[0], 'lora_r'], [shape[0], 0]], [b, ['lora_r', shape[1]], [0, shape[1]]]]) {
      inputs.push({ name: input, type: 'float', shape: dims });
      initializers.push(tensor(input, 'float', empty, floats()));
    }
    return add('Add', [usual, add('MatMul', [add('MatMul', [x, a]), b])]);
  };
  const size = (value, axis) => add('Gather', [add('Shape', [value]), constant('int64', [], [axis])], { axis: 0 });
  const [zero, one] = [constant('int64', [], [0]), constant('int64', [], [1])];
  const [length, total] = [size('input_ids', 1), size('attention_mask', 1)];
  const keys = add('Range', [zero, total, one]);
  const queries = add('Add', [add('Range', [zero, length, one]), add('Sub', [total, length])]);
  const column = add('Unsqueeze', [queries, constant('int64', [1], [1])]);
  const shown = add('And', [add('LessOrEqual', [keys, column]), add('Unsqueeze', [add('Cast', ['attention_mask'], { to: 9 }), constant('int64', [1], [1])])]);
  const bias = add('Where', [shown, constant('float', [], [0]), constant('float', [], [-3.4e38])]);
  let x = add('Gather', [weights('shared', [TOKENS, WIDTH], 3), 'input_ids'], { axis: 0 });
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = (what) => `layers.${layer}.${what}`;
    const normal = add('LayerNormalization', [x, weights(name('scale'), [WIDTH], 2)], { axis: -1 });
    const q = product(normal, name('query'), [WIDTH, WIDTH]);
    const head = (value) => add('Unsqueeze', [value, constant('int64', [1], [1])]);
    const [allKeys, values] = ['key', 'value'].map((what) => {
      const past = `past_key_values.${layer}.${what}`;
      inputs.push({ name: past, type: 'float', shape: ['batch_size', 1, 'past_sequence_length', WIDTH] });
      outputs.push({ name: `present.${layer}.${what}` });
      return add('Concat', [past, head(product(normal, name(what), [WIDTH, WIDTH]))], { axis: 2 }, [`present.${layer}.${what}`]);
    });
    const scores = add('Mul', [add('MatMul', [head(q), add('Transpose', [allKeys], { perm: [0, 1, 3, 2] })]), constant('float', [], [1 / Math.sqrt(WIDTH)])]);
    const attended = add('MatMul', [add('Softmax', [add('Add', [scores, bias])], { axis: -1 }), values]);
    x = add('Add', [x, product(add('Squeeze', [attended, constant('int64', [1], [1])]), name('out'), [WIDTH, WIDTH])]);
  }
  add('MatMul', [x, weights('head', [WIDTH, TOKENS], 1.5)], {}, ['logits']);
  return writeModel({ opset: 17, inputs, outputs, nodes, initializers });
}

/** An adapter of some rank, and what it adds to weights. */
function adapter(rank, seed) {
  const parameters = [];
  const merged = {};
  for (const [i, name] of ADAPTED.entries()) {
    const [a, b] = [seededNumbers(WIDTH * rank, 1.2, seed + 2 * i), seededNumbers(rank * WIDTH, 1.2, seed + 2 * i + 1)];
    parameters.push({ name: `${name}.lora_A.weight`, shape: [WIDTH, rank], data: a }, { name: `${name}.lora_B.weight`, shape: [rank, WIDTH], data: b });
    merged[name] = new Float32Array(WIDTH * WIDTH);
    for (let row = 0; row < WIDTH; row++) {
      for (let column = 0; column < WIDTH; column++) {
        for (let k = 0; k < rank; k++) merged[name][row * WIDTH + column] += a[row * rank + k] * b[k * WIDTH + column];
      }
    }
  }
  return { parameters, merged };
}

/** Writes a flatbuffer from its end to its beginning, as the format's own library does. */
class Writer {
  #parts = [];
  #length = 0;

  /** Puts bytes before all others; where they are, counted from the end. */
  #put(bytes) {
    this.#parts.unshift(bytes);
    this.#length += bytes.length;
    return this.#length;
  }

  /** Fills up, so that what is put next ends at a multiple. */
  #align(size, next) {
    const rest = (this.#length + next) % size;
    if (rest > 0) this.#put(new Uint8Array(size - rest));
  }

  #number(size, write) {
    const bytes = new Uint8Array(size);
    write(new DataView(bytes.buffer));
    return this.#put(bytes);
  }

  offset(to) {
    this.#align(4, 4);
    return this.#number(4, (view) => view.setUint32(0, this.#length + 4 - to, true));
  }

  int32(value) {
    this.#align(4, 4);
    return this.#number(4, (view) => view.setInt32(0, value, true));
  }

  /** A list of bytes, or of numbers of 8 bytes. */
  list(bytes, count, size, isText = false) {
    if (isText) this.#put(new Uint8Array(1));
    this.#align(Math.max(size, 4), bytes.length);
    if (size === 8) this.#align(8, bytes.length);
    this.#put(bytes);
    return this.#number(4, (view) => view.setUint32(0, count, true));
  }

  offsets(list) {
    this.#align(4, 0);
    for (const to of list.toReversed()) this.offset(to);
    return this.#number(4, (view) => view.setUint32(0, list.length, true));
  }

  /** A table of fields of 4 bytes: numbers, or offsets to what was written. */
  table(fields) {
    const end = this.#length;
    const places = fields.map((field) => (field.offset === undefined ? this.int32(field.number) : this.offset(field.offset)));
    const table = this.int32(0);
    const size = table - end;
    this.#align(2, 0);
    for (const place of places.toReversed()) this.#number(2, (view) => view.setUint16(0, table - place, true));
    this.#number(2, (view) => view.setUint16(0, size, true));
    const start = this.#number(2, (view) => view.setUint16(0, 4 + 2 * fields.length, true));
    // From the table to its description.
    const bytes = this.finished();
    new DataView(bytes.buffer).setInt32(bytes.length - table, start - table, true);
    this.#parts = [bytes];
    return table;
  }

  finish(root, identifier) {
    this.#align(8, 8);
    this.#put(new TextEncoder().encode(identifier));
    this.offset(root);
    return this.finished();
  }

  finished() {
    return new Uint8Array(Buffer.concat(this.#parts));
  }
}

/** The numbers of the data types in the format. */
const TYPES = { float32: 1 };

/**
 * A file of an adapter.
 * @param {{name: string, shape: number[], data: ArrayBufferView}[]} parameters
 * @param {number} [version] of the format
 */
function adapterFile(parameters, version = 1) {
  const writer = new Writer();
  const tables = parameters.map(({ name, shape, data, type = TYPES.float32 }) => {
    const text = new TextEncoder().encode(name);
    const fields = [
      { offset: writer.list(text, text.length, 1, true) },
      { offset: writer.list(new Uint8Array(BigInt64Array.from(shape, BigInt).buffer), shape.length, 8) },
      { number: type },
      { offset: writer.list(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), data.byteLength, 8) },
    ];
    return writer.table(fields);
  });
  const list = writer.offsets(tables);
  return writer.finish(writer.table([{ number: version }, { number: 3 }, { number: 7 }, { offset: list }]), 'TORT');
}

module.exports = { LAYERS, TOKENS, WIDTH, adapter, adapterFile, decoder };
