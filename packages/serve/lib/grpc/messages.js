'use strict';

// Messages of gRPC, to and from the tensors of an inference.

const { ServeError } = require('../errors.js');

const refuse = (message) => {
  throw new ServeError('invalid', message);
};

/** The field of InferTensorContents with the elements of a data type. Those of 16-bit floats are raw only. */
const contentsOf = {
  BOOL: 'bool_contents',
  INT8: 'int_contents',
  INT16: 'int_contents',
  INT32: 'int_contents',
  INT64: 'int64_contents',
  UINT8: 'uint_contents',
  UINT16: 'uint_contents',
  UINT32: 'uint_contents',
  UINT64: 'uint64_contents',
  FP32: 'fp32_contents',
  FP64: 'fp64_contents',
};

/** @param {Record<string, any>} parameters */
function readParameters(parameters) {
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, value[value.parameter_choice]]));
}

/**
 * @param {any} request a ModelInferRequest
 * @returns {{ parameters: any, inputs: import('../inference.js').RequestInput[], outputs: any[] }}
 */
function readRequest({ parameters, inputs, outputs, raw_input_contents: raw }) {
  if (raw.length > 0 && raw.length !== inputs.length) refuse(`raw_input_contents: found ${raw.length}, expected one for each of the ${inputs.length} inputs`);
  return {
    parameters: readParameters(parameters),
    inputs: inputs.map((input, i) => readInput(input, raw[i])),
    outputs: outputs.map(({ name, parameters: own }) => ({ name, parameters: readParameters(own) })),
  };
}

function readInput({ name, datatype, shape, parameters, contents }, bytes) {
  const about = { name, datatype, shape: shape.map(Number), parameters: readParameters(parameters) };
  if (bytes !== undefined) {
    if (contents !== null) refuse(`input ${JSON.stringify(name)}: found both contents and raw_input_contents`);
    return { ...about, bytes };
  }
  const field = Object.hasOwn(contentsOf, datatype) ? contentsOf[datatype] : undefined;
  if (field === undefined && /^(FP|BF)16$/.test(datatype)) refuse(`input ${JSON.stringify(name)}: elements of ${datatype} must be in raw_input_contents`);
  return { ...about, list: field === undefined ? [] : (contents?.[field] ?? []) };
}

/**
 * @param {import('../loaded-model.js').LoadedModel} model
 * @param {string} id
 * @param {import('../inference.js').ResponseOutput[]} outputs
 * @returns {any} a ModelInferResponse
 */
function writeResponse({ name, version }, id, outputs) {
  return {
    model_name: name,
    model_version: version,
    id,
    outputs: outputs.map(({ name: output, datatype, shape }) => ({ name: output, datatype: datatype.name, shape })),
    raw_output_contents: outputs.map(({ wire }) => Buffer.from(wire.buffer, wire.byteOffset, wire.byteLength)),
  };
}

module.exports = { readRequest, writeResponse };
