// Writes ONNX models in memory, so that a workload is one file that describes the same work for both engines.
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

const schema = protobuf.loadSync(fileURLToPath(new URL('onnx.proto', import.meta.url)));
const ModelProto = schema.lookupType('onnx.ModelProto');

const FLOAT = 1;

/** A graph under construction. Values are named by strings; every operator method returns the name of its output. */
export class OnnxModel {
  #nodes = [];
  #initializers = [];
  #inputs = [];
  #outputs = [];

  input(name, shape) {
    this.#inputs.push(valueInfo(name, shape));
    return name;
  }

  /** @param {Float32Array} data */
  constant(name, shape, data) {
    const rawData = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#initializers.push({ name, dims: shape, dataType: FLOAT, rawData });
    return name;
  }

  /** @param {Record<string, number | number[]>} [attributes] integers, or lists of them */
  operator(opType, inputs, attributes = {}) {
    const output = `${opType}_${this.#nodes.length}`;
    const attribute = Object.entries(attributes).map(([name, value]) =>
      Array.isArray(value) ? { name, ints: value, type: 'INTS' } : { name, i: value, type: 'INT' },
    );
    this.#nodes.push({ opType, name: output, input: inputs, output: [output], attribute });
    return output;
  }

  output(name, value, shape) {
    this.#nodes.push({ opType: 'Identity', name, input: [value], output: [name], attribute: [] });
    this.#outputs.push(valueInfo(name, shape));
  }

  /** @returns {Uint8Array} what a .onnx file holds */
  encode() {
    const model = {
      irVersion: 8,
      producerName: 'webnn-node benches',
      opsetImport: [{ domain: '', version: 17 }],
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

function valueInfo(name, shape) {
  return { name, type: { tensorType: { elemType: FLOAT, shape: { dim: shape.map((dimValue) => ({ dimValue })) } } } };
}
