// Seeded weights, quickly: a network of a billion numbers is written in seconds, because a block of random numbers is repeated.
import { OnnxModel } from '../onnx/model.mjs';
import { generator } from '../onnx/seeded.mjs';

const BLOCK = 1 << 18;
const random = generator(64);
const numbers = Float32Array.from({ length: BLOCK }, random);
const bytes = Uint8Array.from(numbers, (x) => (x + 1) * 127.99);

/** The bits of a float16, cut off; what is too small for a normal number is 0. */
const view = new Uint32Array(1);
const asFloat = new Float32Array(view.buffer);
export function half(x) {
  asFloat[0] = x;
  const exponent = ((view[0] >>> 23) & 255) - 112;
  const sign = (view[0] >>> 16) & 0x8000;
  return exponent < 1 ? sign : sign | (exponent << 10) | ((view[0] >>> 13) & 1023);
}

/** Fills an array with a block again and again. */
function repeated(data, block) {
  for (let at = 0; at < data.length; at += block.length) data.set(at + block.length > data.length ? block.subarray(0, data.length - at) : block, at);
  return data;
}

const count = (shape) => shape.reduce((a, b) => a * b, 1);

/** A model under construction that counts what a run of it computes and reads at least. */
export class CountedModel extends OnnxModel {
  /** Of multiplications and additions. */
  flops = 0;
  weightBytes = 0;
  #names = 0;
  #blocks = new Map();

  /** @param {'float32' | 'float16'} type of the weights and of what is computed */
  constructor(type = 'float32') {
    super();
    this.type = type;
  }

  /** A constant with a name of its own. */
  value(shape, data) {
    this.weightBytes += data.byteLength;
    return this.constant(`c${this.#names++}`, shape, data);
  }

  /** Numbers up to a scale, around a middle. */
  weight(shape, scale, middle = 0) {
    const key = `${scale} ${middle}`;
    if (!this.#blocks.has(key)) {
      const scaled = numbers.map((x) => middle + x * scale);
      this.#blocks.set(key, this.type === 'float16' ? Uint16Array.from(scaled, half) : scaled);
    }
    const block = this.#blocks.get(key);
    return this.value(shape, repeated(new block.constructor(count(shape)), block));
  }

  /** These numbers, in the model's type. */
  table(shape, data) {
    return this.value(shape, this.type === 'float16' ? Uint16Array.from(data, half) : data);
  }

  longs(...list) {
    return this.constant(`c${this.#names++}`, [list.length], BigInt64Array.from(list, BigInt));
  }

  number(value) {
    return this.value([], this.type === 'float16' ? Uint16Array.of(half(value)) : Float32Array.of(value));
  }

  op(type, inputs, attributes) {
    return this.operator(type, inputs, attributes);
  }

  /** An input of float32, in the model's type. */
  floats(name, shape) {
    const input = this.input(name, shape);
    return this.type === 'float16' ? this.op('Cast', [input], { to: 10 }) : input;
  }

  /** An output of float32. */
  finish(name, value, shape) {
    this.output(name, this.type === 'float16' ? this.op('Cast', [value], { to: 1 }) : value, shape);
  }

  /** `x` times weights, of `rows` rows. */
  dense(x, from, to, rows, { bias = true } = {}) {
    this.flops += 2 * rows * from * to;
    const y = this.op('MatMul', [x, this.weight([from, to], 1.7 / Math.sqrt(from))]);
    return bias ? this.op('Add', [y, this.weight([to], 0.01)]) : y;
  }

  /** The same with blocks of 32 numbers of 4 bits that share a scale. */
  quantized(x, from, to, rows) {
    this.flops += 2 * rows * from * to;
    const packed = this.value([to, from / 32, 16], repeated(new Uint8Array((to * from) / 2), bytes));
    const scales = this.weight([(to * from) / 32], 0.05 / Math.sqrt(from), 0.37 / Math.sqrt(from));
    const output = `q${this.#names++}`;
    return this.contributed('MatMulNBits', [x, packed, scales], [output], { K: from, N: to, bits: 4, block_size: 32 });
  }
}
