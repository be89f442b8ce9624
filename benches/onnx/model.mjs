// Writes ONNX models in memory, so that one description of the work serves every engine.
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

const schema = protobuf.loadSync(fileURLToPath(new URL('onnx.proto', import.meta.url)));
const ModelProto = schema.lookupType('onnx.ModelProto');

/** The numbers of ONNX's element types, and the arrays that hold them. */
const TYPES = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, float16: 10 };
/** The operators that onnxruntime adds. */
const CONTRIBUTED = 'com.microsoft';
const ARRAYS = new Map([
  [Float32Array, 'float32'],
  [Uint8Array, 'uint8'],
  [Int8Array, 'int8'],
  [Int32Array, 'int32'],
  [BigInt64Array, 'int64'],
  // Node.js 20 has no array of it.
  [Uint16Array, 'float16'],
]);

/** A graph under construction. Values are named by strings; every operator method returns the name of its output. */
export class OnnxModel {
  #nodes = [];
  #initializers = [];
  #inputs = [];
  #outputs = [];
  #contributes = false;

  /** @param {(number | string)[]} shape a string is a dimension that is not known yet */
  input(name, shape, type = 'float32') {
    this.#inputs.push(valueInfo(name, shape, type));
    return name;
  }

  /** @param {Float32Array | Uint16Array | Uint8Array | Int8Array | Int32Array | BigInt64Array} data */
  constant(name, shape, data) {
    const rawData = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#initializers.push({ name, dims: shape, dataType: TYPES[ARRAYS.get(data.constructor)], rawData });
    return name;
  }

  /**
   * @param {string[]} inputs an empty name leaves out an optional input
   * @param {Record<string, number | number[] | string | {float: number}>} [attributes] numbers are integers
   */
  operator(opType, inputs, attributes = {}) {
    return this.operators(opType, inputs, attributes, 1)[0];
  }

  /** The same for operators with several outputs; returns their names. */
  operators(opType, inputs, attributes, count) {
    const name = `${opType}_${this.#nodes.length}`;
    const output = Array.from({ length: count }, (_, i) => (count === 1 ? name : `${name}_${i}`));
    const attribute = Object.entries(attributes).map(([name, value]) => ({ name, ...attributeValue(value) }));
    this.#nodes.push({ opType, name, input: inputs, output, attribute });
    return output;
  }

  /** An operator of onnxruntime's. @param {string[]} outputs an empty name leaves out an optional output */
  contributed(opType, inputs, outputs, attributes = {}) {
    this.#contributes = true;
    const attribute = Object.entries(attributes).map(([name, value]) => ({ name, ...attributeValue(value) }));
    this.#nodes.push({ opType, name: `${opType}_${this.#nodes.length}`, input: inputs, output: outputs, attribute, domain: CONTRIBUTED });
    return outputs[0];
  }

  output(name, value, shape, type = 'float32') {
    this.#nodes.push({ opType: 'Identity', name, input: [value], output: [name], attribute: [] });
    this.declareOutput(name, shape, type);
  }

  /** A value that has this name already becomes an output. */
  declareOutput(name, shape, type = 'float32') {
    this.#outputs.push(valueInfo(name, shape, type));
  }

  /** @returns {Uint8Array} what a .onnx file holds */
  encode() {
    const model = {
      irVersion: 8,
      producerName: 'webnn-node benches',
      opsetImport: [{ domain: '', version: 17 }, ...(this.#contributes ? [{ domain: CONTRIBUTED, version: 1 }] : [])],
      graph: {
        name: 'graph',
        node: this.#nodes,
        initializer: this.#initializers,
        input: this.#inputs,
        output: this.#outputs,
      },
    };
    return ModelProto.encode(ModelProto.fromObject(model)).finish();
  }
}

function attributeValue(value) {
  if (Array.isArray(value)) return { ints: value, type: 'INTS' };
  if (typeof value === 'string') return { s: new TextEncoder().encode(value), type: 'STRING' };
  return typeof value === 'number' ? { i: value, type: 'INT' } : { f: value.float, type: 'FLOAT' };
}

function valueInfo(name, shape, type) {
  const dim = shape.map((size) => (typeof size === 'string' ? { dimParam: size } : { dimValue: size }));
  return { name, type: { tensorType: { elemType: TYPES[type], shape: { dim } } } };
}
