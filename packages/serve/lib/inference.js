'use strict';

// From the tensors of a request to those of a response, for REST and gRPC alike.

const { codecOf } = require('./datatypes.js');
const { ServeError } = require('./errors.js');

/**
 * A tensor of a request.
 * @typedef {object} RequestInput
 * @property {string} name
 * @property {string} datatype
 * @property {number[]} shape
 * @property {Uint8Array} [bytes] its elements as they are in memory
 * @property {unknown} [list] its elements as JSON has them
 * @property {Record<string, unknown>} [parameters]
 */

/** @typedef {{ name: string, datatype: import('./datatypes.js').Datatype, shape: readonly number[], wire: any }} ResponseOutput */
/** @typedef {import('./loaded-model.js').LoadedModel} LoadedModel */

/** More dimensions than WebNN has are refused by the model; these are too many to look at. */
const MOST_DIMENSIONS = 32;

const quote = (name) => JSON.stringify(name);
const refuse = (message) => {
  throw new ServeError('invalid', message);
};

/** What the protocol can say of a model's input or output. */
class Ports {
  /** @param {any[]} signatures @param {'input' | 'output'} word */
  constructor(signatures, word) {
    this.word = word;
    this.names = signatures.map(({ name }) => name);
    this.byName = new Map(signatures.map((signature) => [signature.name, { signature, codec: codecOf(signature) }]));
  }

  get(name) {
    const port = this.byName.get(name);
    if (port === undefined) refuse(`${this.word} ${quote(name)}: found no such ${this.word}, allowed ${this.names.map(quote).join(', ')}`);
    return port;
  }
}

/** By an OnnxModel. @type {WeakMap<any, { inputs: Ports, outputs: Ports }>} */
const portsOf = new WeakMap();

/** @param {LoadedModel} model */
function ports({ name, onnx }) {
  if (onnx === undefined) refuse(`model ${quote(name)}: it takes no tensors`);
  let found = portsOf.get(onnx);
  if (found === undefined) portsOf.set(onnx, (found = { inputs: new Ports(onnx.inputs, 'input'), outputs: new Ports(onnx.outputs, 'output') }));
  return found;
}

/**
 * What a model is called with.
 * @param {LoadedModel} model
 * @param {RequestInput[]} inputs
 * @param {{ maxElements: number }} limits
 */
function readInputs(model, inputs, limits) {
  const { inputs: known } = ports(model);
  // Without a prototype, so that '__proto__' is a name like others.
  const feeds = Object.create(null);
  let left = limits.maxElements;
  for (const input of inputs) {
    const { name } = input;
    if (name in feeds) refuse(`input ${quote(name)}: found twice`);
    const { signature, codec } = known.get(name);
    if (signature.sequence) refuse(`input ${quote(name)}: a sequence, which the protocol does not have`);
    const count = countElements(input);
    left -= count;
    if (left < 0) throw new ServeError('large', `input ${quote(name)}: found more elements than the ${limits.maxElements} that a request may have`);
    const data = codec.toModel(wireOf(input, requireDatatype(input, codec), count));
    if (data === undefined) refuse(`input ${quote(name)}: found an element out of range, allowed those of ${signature.type}`);
    feeds[name] = { data, shape: input.shape, dataType: signature.dataType };
  }
  return feeds;
}

function requireDatatype({ name, datatype, parameters }, codec) {
  if (parameters?.shared_memory_region !== undefined) refuse(`input ${quote(name)}: shared memory is not supported; send the tensor in the request`);
  const wanted = codec?.datatype?.name;
  if (datatype === 'BYTES') refuse(`input ${quote(name)}: BYTES is not supported: models of this server have no strings${wanted === undefined ? '' : `; expected ${wanted}`}`);
  if (datatype !== wanted) refuse(`input ${quote(name)}: found datatype ${quote(datatype)}, expected ${wanted}`);
  return codec.datatype;
}

function countElements({ name, shape }) {
  if (shape.length > MOST_DIMENSIONS) refuse(`input ${quote(name)}: shape: found ${shape.length} dimensions, allowed at most ${MOST_DIMENSIONS}`);
  let count = 1;
  for (const size of shape) {
    if (!Number.isSafeInteger(size) || size < 0) refuse(`input ${quote(name)}: shape: found ${String(size)}, expected whole numbers from 0`);
    count *= size;
  }
  if (!Number.isSafeInteger(count)) refuse(`input ${quote(name)}: shape: found too many elements`);
  return count;
}

/** The elements of an input as a typed array. */
function wireOf({ name, bytes, list }, datatype, count) {
  if (bytes === undefined) return fromList(name, list, datatype, count);
  const { Wire } = datatype;
  const size = count * Wire.BYTES_PER_ELEMENT;
  if (bytes.length !== size) refuse(`input ${quote(name)}: found ${bytes.length} bytes, expected ${size} for its shape and ${datatype.name}`);
  const { buffer, byteOffset } = bytes;
  // In the middle of a request elements are rarely aligned.
  if (byteOffset % Wire.BYTES_PER_ELEMENT === 0) return new Wire(buffer, byteOffset, count);
  return new Wire(buffer.slice(byteOffset, byteOffset + size));
}

/** Elements in JSON, flat or nested. */
function fromList(name, list, { name: datatype, Wire, read }, count) {
  if (!Array.isArray(list)) refuse(`input ${quote(name)}: expected its elements in "data"`);
  // Memory is allocated for what is there, not for what the shape says.
  if (list.length > count) refuse(`input ${quote(name)}: found more elements than its shape has`);
  const wire = [];
  const fill = (part, depth) => {
    if (depth > MOST_DIMENSIONS) refuse(`input ${quote(name)}: found lists nested more than ${MOST_DIMENSIONS} deep`);
    for (const value of part) {
      if (Array.isArray(value)) fill(value, depth + 1);
      else wire.push(value);
    }
  };
  fill(list, 1);
  if (wire.length !== count) refuse(`input ${quote(name)}: found ${wire.length} elements, expected ${count} for its shape`);
  const array = new Wire(count);
  for (let i = 0; i < count; i++) {
    const element = read(wire[i]);
    if (element === undefined) refuse(`input ${quote(name)}: found the element ${shorten(wire[i])}, expected one of ${datatype}`);
    array[i] = element;
  }
  return array;
}

const shorten = (value) => (JSON.stringify(value) ?? String(value)).slice(0, 40);

/**
 * The outputs that a request asks for.
 * @param {LoadedModel} model
 * @param {{ name: string, parameters?: Record<string, unknown> }[]} outputs
 * @returns {string[] | undefined} nothing for all
 */
function readOutputs(model, outputs) {
  const { outputs: known } = ports(model);
  for (const { name, parameters } of outputs) {
    known.get(name);
    if (parameters?.shared_memory_region !== undefined) refuse(`output ${quote(name)}: shared memory is not supported`);
    if (Number(parameters?.classification ?? 0) !== 0) refuse(`output ${quote(name)}: classification is not supported`);
  }
  const names = outputs.map(({ name }) => name);
  if (new Set(names).size !== names.length) refuse('outputs: found a name twice');
  return names.length === 0 ? undefined : names;
}

/**
 * The tensors of a response, in the order in which they were asked for.
 * @param {LoadedModel} model
 * @param {Record<string, any>} results
 * @param {string[] | undefined} wanted
 * @returns {ResponseOutput[]}
 */
function writeOutputs(model, results, wanted) {
  const { outputs: known } = ports(model);
  const written = [];
  for (const name of wanted ?? known.names) {
    const result = results[name];
    // An optional value without content.
    if (result === null || result === undefined) continue;
    if (Array.isArray(result)) refuse(`output ${quote(name)}: a sequence, which the protocol does not have; ask for other outputs`);
    const codec = known.get(name).codec ?? codecOf({ type: null, dataType: result.dataType });
    written.push({ name, datatype: codec.datatype, shape: result.shape, wire: codec.fromModel(result.data) });
  }
  return written;
}

/**
 * The parameters of a request that are Triton's.
 * @param {Record<string, unknown> | undefined} parameters
 * @returns {{ priority: number, timeout: number }} `timeout` in milliseconds
 */
function readParameters(parameters) {
  const whole = (name) => {
    const value = Number(parameters?.[name] ?? 0);
    if (!Number.isSafeInteger(value) || value < 0) refuse(`parameters: ${name}: found ${shorten(parameters[name])}, expected a whole number from 0`);
    return value;
  };
  const timeout = whole('timeout') / 1000;
  for (const name of ['sequence_id', 'sequence_start', 'sequence_end']) {
    const value = parameters?.[name];
    if (value !== undefined && value !== 0 && value !== false && value !== '' && value !== '0') refuse(`parameters: ${name}: sequences of requests are not supported`);
  }
  return { priority: whole('priority'), timeout: timeout === 0 ? Infinity : timeout };
}

/** Types that the protocol names in metadata: strings are BYTES there, and what is unknown is empty. */
function datatypeName(signature) {
  return codecOf(signature)?.datatype.name ?? (signature.type === 'string' ? 'BYTES' : '');
}

/** The metadata of an input or output; an open dimension is -1. */
const describePort = (signature) => ({
  name: signature.name,
  datatype: datatypeName(signature),
  shape: (signature.shape ?? [-1]).map((size) => (typeof size === 'number' ? size : -1)),
});

/** @param {LoadedModel} model @param {string[]} versions */
function describeModel({ name, onnx }, versions) {
  const list = (signatures) => (signatures ?? []).map(describePort);
  return { name, versions, platform: 'onnx_onnxv1', inputs: list(onnx?.inputs), outputs: list(onnx?.outputs) };
}

/** What Triton calls the configuration of a model, as far as there is one. */
function configureModel({ name, onnx }) {
  const port = (signature) => {
    const { datatype, shape, ...rest } = describePort(signature);
    const type = datatype === 'BYTES' ? 'STRING' : datatype || 'INVALID';
    return { ...rest, data_type: `TYPE_${type}`, dims: shape, ...(signature.optional ? { optional: true } : {}) };
  };
  const list = (signatures) => (signatures ?? []).map(port);
  // The first dimension of a shape is written out, so requests have no other one in front.
  return { name, platform: 'onnx_onnxv1', backend: 'webnn-node', max_batch_size: 0, input: list(onnx?.inputs), output: list(onnx?.outputs) };
}

module.exports = { configureModel, describeModel, readInputs, readOutputs, readParameters, writeOutputs };
