'use strict';

// A network that reads whole texts: embeddings and cross-encoders. Texts are padded to few lengths, since each needs a plan.

const { Batches } = require('./batches.js');

/** The next length of 8, 12, 16, 24, 32, 48, 64, …: at most a third of it is padding. */
function paddedLength(length, most) {
  let size = 8;
  while (size < length) size = (size & (size - 1)) === 0 ? size * 1.5 : (size / 3) * 4;
  return Math.max(length, Math.min(size, most));
}

const ARRAYS = { int64: BigInt64Array, int32: Int32Array, float32: Float32Array };

/** The values of an input with a number for each token; nothing if it is another kind of input. */
const TOKENS = {
  input_ids: ({ ids }, i, pad) => ids[i] ?? pad,
  attention_mask: ({ ids }, i) => (i < ids.length ? 1 : 0),
  token_type_ids: ({ types }, i) => types?.[i] ?? 0,
  position_ids: (_row, i) => i,
};

class Encoder {
  #model;
  #output;
  #pad;
  #maxLength;
  #read;
  #batches;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {{output: string, pad: number, maxLength: number, read: (tensor: any, row: number, count: number) => any}} options the output that is
   * read, the token of the padding, and what is made of the output for a text of `count` tokens
   */
  constructor(model, { output, pad, maxLength, read }) {
    this.#model = model;
    this.#output = output;
    this.#pad = pad;
    this.#maxLength = maxLength;
    this.#read = read;
    this.#batches = new Batches((rows, signal) => this.#compute(rows, signal));
  }

  /** Whether all inputs are of kinds that can be filled. */
  static fits({ inputs }) {
    return inputs.some(({ name }) => name === 'input_ids') && inputs.every((input) => input.optional || Object.hasOwn(TOKENS, input.name) || isPast(input));
  }

  /**
   * @param {{ids: number[], types?: number[]}} row
   * @param {AbortSignal} [signal]
   */
  run(row, signal) {
    return this.#batches.add(row, row.ids.length, signal);
  }

  async #compute(rows, signal) {
    const length = paddedLength(Math.max(...rows.map(({ ids }) => ids.length)), this.#maxLength);
    const feeds = {};
    for (const input of this.#model.inputs) {
      if (!input.optional) feeds[input.name] = isPast(input) ? emptyPast(input, rows.length) : this.#feed(input, rows, length);
    }
    const output = (await this.#model.run(feeds, { outputs: [this.#output], signal }))[this.#output];
    return rows.map(({ ids }, row) => this.#read(output, row, ids.length));
  }

  #feed({ name, dataType }, rows, length) {
    const data = new ARRAYS[dataType](rows.length * length);
    const convert = dataType === 'int64' ? BigInt : Number;
    rows.forEach((row, r) => {
      for (let i = 0; i < length; i++) data[r * length + i] = convert(TOKENS[name](row, i, this.#pad));
    });
    return { data, shape: [rows.length, length], dataType };
  }
}

const isPast = ({ name, shape }) => /^past/.test(name) && Array.isArray(shape);

/** A decoder that makes embeddings has caches, of no tokens here. */
function emptyPast({ dataType, shape }, rows) {
  const sizes = shape.map((size) => (typeof size === 'number' ? size : /past|seq|length/.test(size) ? 0 : rows));
  const isHalf = dataType === 'float16';
  return { data: isHalf ? new Uint16Array(0) : new Float32Array(0), shape: sizes, dataType };
}

module.exports = { Encoder, paddedLength };
