'use strict';

// Files of adapters (.onnx_adapter), as onnxruntime writes them: a flatbuffer with the weights by the names of a model's inputs. Whoever made the file
// is not trusted: each offset is checked before it is followed, and what is read is never more than the file has.

const { typeError } = require('../errors.js');
const { ARRAYS, elementCount, lengthFor } = require('../onnx/arrays.js');
const { quote } = require('../show.js');

/**
 * A tensor of a file.
 * @typedef {{name: string, dataType: string, shape: number[], data: ArrayBufferView}} Parameter
 */

const NAME = 'loadAdapter';
const IDENTIFIER = 'TORT';
const VERSION = 1;
/** By the numbers of the format. */
const DATA_TYPES = { 1: 'float32', 2: 'uint8', 3: 'int8', 6: 'int32', 7: 'int64', 10: 'float16', 12: 'uint32', 13: 'uint64' };
const MOST_DIMENSIONS = 16;

const refuse = (text) => typeError(NAME, '', text);

/** The fields of tables, by their positions. */
const ADAPTER = { formatVersion: 0, adapterVersion: 1, modelVersion: 2, parameters: 3 };
const PARAMETER = { name: 0, dims: 1, dataType: 2, data: 3 };

/** Reads numbers at positions that a file says. */
class Reader {
  #bytes;
  #view;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #require(position, length) {
    if (!(position >= 0 && length >= 0 && position + length <= this.#bytes.length)) {
      throw refuse(`found the offset ${position}, allowed offsets within the ${this.#bytes.length} bytes of the file`);
    }
  }

  uint16(position) {
    this.#require(position, 2);
    return this.#view.getUint16(position, true);
  }

  int32(position) {
    this.#require(position, 4);
    return this.#view.getInt32(position, true);
  }

  uint32(position) {
    this.#require(position, 4);
    return this.#view.getUint32(position, true);
  }

  int64(position) {
    this.#require(position, 8);
    return this.#view.getBigInt64(position, true);
  }

  /** What an offset leads to. */
  follow(position) {
    return position + this.uint32(position);
  }

  /** Where a field of a table is; nothing if it has its default. */
  field(table, number) {
    const fields = table - this.int32(table);
    const place = 4 + 2 * number;
    if (place + 2 > this.uint16(fields)) return undefined;
    const offset = this.uint16(fields + place);
    return offset === 0 ? undefined : table + offset;
  }

  /** A number of a table. */
  number(table, number) {
    const field = this.field(table, number);
    return field === undefined ? 0 : this.int32(field);
  }

  /** The elements of a list: where the first is, and how many there are. */
  list(table, number, size) {
    const field = this.field(table, number);
    if (field === undefined) return { first: 0, count: 0 };
    const start = this.follow(field);
    const count = this.uint32(start);
    this.#require(start + 4, count * size);
    return { first: start + 4, count };
  }

  bytes(first, length) {
    this.#require(first, length);
    return this.#bytes.subarray(first, first + length);
  }
}

/**
 * Reads a file.
 * @param {Uint8Array} bytes
 * @returns {{adapterVersion: number, modelVersion: number, parameters: Parameter[]}} whose arrays may lie in the bytes
 */
function readAdapter(bytes) {
  const identifier = String.fromCharCode(...bytes.subarray(4, 8));
  if (bytes.length < 8 || identifier !== IDENTIFIER) throw refuse(`found a file without the identifier ${quote(IDENTIFIER)}, allowed a file of an adapter (.onnx_adapter)`);
  const reader = new Reader(bytes);
  const root = reader.follow(0);
  const version = reader.number(root, ADAPTER.formatVersion);
  if (version !== VERSION) throw refuse(`found the format version ${version}, allowed ${VERSION}`);
  const { first, count } = reader.list(root, ADAPTER.parameters, 4);
  /** @type {Map<string, Parameter>} */
  const found = new Map();
  // Several may lie in the same bytes. They are copied, so a small file could ask for any amount.
  let left = bytes.length;
  for (let i = 0; i < count; i++) {
    const parameter = readParameter(reader, reader.follow(first + 4 * i));
    left -= parameter.data.byteLength + parameter.name.length;
    if (left < 0) throw refuse('found weights that take more bytes than the file has');
    if (found.has(parameter.name)) throw refuse(`found ${quote(parameter.name)} twice, allowed each name once`);
    found.set(parameter.name, parameter);
  }
  return { adapterVersion: reader.number(root, ADAPTER.adapterVersion), modelVersion: reader.number(root, ADAPTER.modelVersion), parameters: [...found.values()] };
}

/** @returns {Parameter} */
function readParameter(reader, table) {
  const text = reader.list(table, PARAMETER.name, 1);
  let name;
  try {
    name = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(reader.bytes(text.first, text.count));
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith(NAME)) throw error;
    throw refuse('found a name that is not UTF-8, allowed UTF-8');
  }
  if (name === '') throw refuse('found weights without a name, allowed the names of inputs of a model');
  const type = reader.number(table, PARAMETER.dataType);
  const dataType = DATA_TYPES[type];
  if (dataType === undefined) throw refuse(`${quote(name)}: found the data type ${type}, allowed ${Object.keys(DATA_TYPES).join(', ')}`);
  const dims = reader.list(table, PARAMETER.dims, 8);
  if (dims.count > MOST_DIMENSIONS) throw refuse(`${quote(name)}: found ${dims.count} dimensions, allowed ${MOST_DIMENSIONS} at most`);
  const shape = Array.from({ length: dims.count }, (_, i) => {
    const size = reader.int64(dims.first + 8 * i);
    if (size < 0n || size > 0xffffffffn) throw refuse(`${quote(name)}: found a dimension of ${size}, allowed whole numbers from 0 to 4294967295`);
    return Number(size);
  });
  const raw = reader.list(table, PARAMETER.data, 1);
  const Elements = ARRAYS[dataType];
  const length = lengthFor(dataType, elementCount(shape));
  if (raw.count !== length * Elements.BYTES_PER_ELEMENT) throw refuse(`${quote(name)}: found ${raw.count} bytes, allowed ${length * Elements.BYTES_PER_ELEMENT} for ${dataType} of the shape [${shape.join(', ')}]`);
  let own = reader.bytes(raw.first, raw.count);
  if (own.byteOffset % Elements.BYTES_PER_ELEMENT !== 0) own = own.slice();
  return { name, dataType, shape, data: new Elements(own.buffer, own.byteOffset, length) };
}

module.exports = { NAME, readAdapter };
