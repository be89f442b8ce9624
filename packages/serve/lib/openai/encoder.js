'use strict';

// A network that reads whole texts: embeddings and cross-encoders. Those that wait are joined by the model's `batching`, which also pads them if
// it is proved that padding changes nothing. Otherwise texts are padded here, which their mask tells, to few lengths: those of equal lengths are joined.

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
  #isPadded;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {{output: string, pad: number, maxLength: number, read: (tensor: any, count: number) => any}} options the output that is
   * read, the token of the padding, and what is made of the output for a text of `count` tokens
   */
  constructor(model, { output, pad, maxLength, read }) {
    this.#model = model;
    this.#output = output;
    this.#pad = pad;
    this.#maxLength = maxLength;
    this.#read = read;
    this.#isPadded = Object.keys(model.batching?.lengths.axes ?? {}).length > 0;
  }

  /** Whether all inputs are of kinds that can be filled. */
  static fits({ inputs }) {
    return inputs.some(({ name }) => name === 'input_ids') && inputs.every((input) => input.optional || Object.hasOwn(TOKENS, input.name) || isPast(input));
  }

  /**
   * @param {{ids: number[], types?: number[]}} row
   * @param {AbortSignal} [signal]
   */
  async run(row, signal) {
    const count = row.ids.length;
    const length = this.#isPadded ? count : paddedLength(count, this.#maxLength);
    const feeds = {};
    for (const input of this.#model.inputs) {
      if (!input.optional) feeds[input.name] = isPast(input) ? emptyPast(input) : this.#feed(input, row, length);
    }
    const output = (await this.#model.run(feeds, { outputs: [this.#output], signal }))[this.#output];
    return this.#read(output, count);
  }

  #feed({ name, dataType }, row, length) {
    const convert = dataType === 'int64' ? BigInt : Number;
    const data = ARRAYS[dataType].from({ length }, (_, i) => convert(TOKENS[name](row, i, this.#pad)));
    return { data, shape: [1, length], dataType };
  }
}

const isPast = ({ name, shape }) => /^past/.test(name) && Array.isArray(shape);

/** A decoder that makes embeddings has caches, of no tokens here. */
function emptyPast({ dataType, shape }) {
  const sizes = shape.map((size) => (typeof size === 'number' ? size : /past|seq|length/.test(size) ? 0 : 1));
  const isHalf = dataType === 'float16';
  return { data: isHalf ? new Uint16Array(0) : new Float32Array(0), shape: sizes, dataType };
}

module.exports = { Encoder, paddedLength };
