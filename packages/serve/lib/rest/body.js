'use strict';

// Requests and responses of REST: JSON, and after it the bytes of tensors (the binary tensor data extension).

const { promisify } = require('node:util');
const zlib = require('node:zlib');
const { codecOf } = require('../datatypes.js');
const { ServeError } = require('../errors.js');

const HEADER = 'inference-header-content-length';

const refuse = (message) => {
  throw new ServeError('invalid', message);
};
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

const decompress = { gzip: promisify(zlib.gunzip), deflate: promisify(zlib.inflate) };

/**
 * The body of a request that may be compressed.
 * @param {Buffer} body
 * @param {string} [encoding]
 * @param {number} [most] bytes
 */
async function inflate(body, encoding = 'identity', most = Infinity) {
  if (encoding === 'identity') return body;
  if (!Object.hasOwn(decompress, encoding)) throw new ServeError('unsupported', `Content-Encoding: found ${JSON.stringify(encoding.slice(0, 40))}, allowed gzip and deflate`);
  try {
    return await decompress[encoding](body, { maxOutputLength: most });
  } catch (error) {
    if (error.code === 'ERR_BUFFER_TOO_LARGE') throw new ServeError('large', `the body is larger than ${most} bytes when it is decompressed`);
    return refuse(`the body is not compressed as Content-Encoding says: ${error.message}`);
  }
}

/**
 * Reads the object of a request, which may be missing.
 * @param {Buffer | undefined} body
 */
function readObject(body) {
  if (body === undefined || body === null || body.length === 0) return {};
  const found = parse(body.toString('utf8'));
  if (!isObject(found)) refuse('found no object in the body');
  return found;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    return refuse(`the body is no JSON: ${error.message.slice(0, 200)}`);
  }
}

const LONG_NUMBER = /\d{16}/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A whole number that may not fit in a number becomes a string of its digits. The text has been parsed before, so strings do end. */
const quoteLongNumbers = (text) => text.replace(TOKEN, (token) => (token.length > 15 && /^-?\d+$/.test(token) ? `"${token}"` : token));

/**
 * The request of an inference.
 * @param {Buffer | undefined} body
 * @param {string | undefined} headerLength of the JSON, if bytes of tensors follow
 * @param {any} onnx the model
 * @returns {{ id: string | undefined, parameters: any, inputs: import('../inference.js').RequestInput[], outputs: any[], binary: boolean }}
 */
function readInference(body, headerLength, onnx) {
  const bytes = body ?? Buffer.alloc(0);
  const length = headerLength === undefined ? bytes.length : requireLength(headerLength, bytes.length);
  // Without JSON the body is the model's only input.
  if (headerLength !== undefined && length === 0) return { id: undefined, parameters: undefined, inputs: [rawInput(bytes, onnx)], outputs: [], binary: true };
  const text = bytes.toString('utf8', 0, length);
  let request = parse(text);
  if (!isObject(request)) refuse('found no object in the body');
  if (LONG_NUMBER.test(text) && takesLong(onnx)) request = parse(quoteLongNumbers(text));
  const { id, parameters, inputs, outputs = [] } = request;
  if (id !== undefined && typeof id !== 'string') refuse('id: expected a string');
  requireParameters('parameters', parameters);
  if (!Array.isArray(inputs)) refuse('inputs: expected an array');
  if (!Array.isArray(outputs)) refuse('outputs: expected an array');
  return { id, parameters, inputs: readTensors(inputs, bytes.subarray(length)), outputs: readNames(outputs), binary: parameters?.binary_data_output === true };
}

const takesLong = (onnx) => onnx?.inputs.some(({ dataType }) => dataType === 'int64' || dataType === 'uint64') === true;

function requireLength(text, most) {
  const length = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (!(length <= most)) refuse(`Inference-Header-Content-Length: found ${JSON.stringify(text.slice(0, 40))}, expected a number up to the ${most} bytes of the body`);
  return length;
}

function requireParameters(place, parameters) {
  if (parameters !== undefined && !isObject(parameters)) refuse(`${place}: expected an object`);
}

function readTensors(inputs, binary) {
  let at = 0;
  const tensors = inputs.map((input, i) => {
    if (!isObject(input)) refuse(`inputs[${i}]: expected an object`);
    const { name, datatype, shape, data: list, parameters } = input;
    if (typeof name !== 'string') refuse(`inputs[${i}]: name: expected a string`);
    if (typeof datatype !== 'string') refuse(`inputs[${i}]: datatype: expected a string`);
    if (!Array.isArray(shape)) refuse(`inputs[${i}]: shape: expected an array`);
    requireParameters(`inputs[${i}]: parameters`, parameters);
    const size = parameters?.binary_data_size;
    if (size === undefined) return { name, datatype, shape, list, parameters };
    if (list !== undefined) refuse(`inputs[${i}]: found both "data" and binary_data_size`);
    if (!Number.isSafeInteger(size) || size < 0) refuse(`inputs[${i}]: binary_data_size: expected a number of bytes`);
    if (size > binary.length - at) refuse(`inputs[${i}]: binary_data_size: found ${size}, but ${binary.length - at} bytes are left in the body`);
    at += size;
    return { name, datatype, shape, bytes: binary.subarray(at - size, at), parameters };
  });
  if (at !== binary.length) refuse(`found ${binary.length} bytes after the JSON, expected the ${at} of the inputs`);
  return tensors;
}

function readNames(outputs) {
  return outputs.map((output, i) => {
    if (!isObject(output) || typeof output.name !== 'string') refuse(`outputs[${i}]: expected an object with a name`);
    requireParameters(`outputs[${i}]: parameters`, output.parameters);
    return output;
  });
}

/** A body without JSON: the only input of a model, of which at most one size is open. */
function rawInput(bytes, onnx) {
  const signature = onnx?.inputs.length === 1 ? onnx.inputs[0] : undefined;
  const shape = signature?.shape?.map((size) => (typeof size === 'number' ? size : -1));
  if (shape === undefined || shape.filter((size) => size === -1).length > 1) refuse('a body without JSON needs a model with one input, with at most one open size');
  const { datatype } = codecOf(signature) ?? refuse('a body without JSON needs a model without strings');
  const known = shape.reduce((all, size) => (size === -1 ? all : all * size), datatype.Wire.BYTES_PER_ELEMENT);
  return { name: signature.name, datatype: datatype.name, shape: shape.map((size) => (size === -1 ? Math.floor(bytes.length / known) : size)), bytes };
}

/**
 * The body of a response.
 * @param {Record<string, unknown>} head what is in front of the outputs
 * @param {import('../inference.js').ResponseOutput[]} outputs
 * @param {(name: string) => boolean} isBinary
 * @returns {{ body: Buffer | string, headerLength: number | undefined }} a length if bytes of tensors follow the JSON
 */
function writeInference(head, outputs, isBinary) {
  const parts = [];
  const texts = outputs.map(({ name, datatype, shape, wire }) => {
    const about = `{"name":${JSON.stringify(name)},"datatype":"${datatype.name}","shape":[${shape.join()}],`;
    if (!isBinary(name)) return `${about}"data":[${datatype.print(wire)}]}`;
    parts.push(Buffer.from(wire.buffer, wire.byteOffset, wire.byteLength));
    return `${about}"parameters":{"binary_data_size":${wire.byteLength}}}`;
  });
  const front = JSON.stringify(head);
  const text = `${front.slice(0, -1)}${front === '{}' ? '' : ','}"outputs":[${texts.join()}]}`;
  if (parts.length === 0) return { body: text, headerLength: undefined };
  const json = Buffer.from(text);
  return { body: Buffer.concat([json, ...parts]), headerLength: json.length };
}

module.exports = { HEADER, inflate, readInference, readObject, writeInference };
