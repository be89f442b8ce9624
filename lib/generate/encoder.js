'use strict';

// Encoder-decoders: runs the encoder, and gives what it has made to the decoder. An export may have two decoders: one for the first step, which
// has no caches, and one for all others. Here the second makes all steps, because it makes the first one, too, where the caches of the encoder
// are known. These the first one computes once.

const { typeError } = require('../errors.js');
const { modelOf, runModel } = require('../onnx/onnx-model.js');
const { quote, show } = require('../show.js');
const { NAME } = require('./cache.js');
const { requireMembers } = require('./members.js');

/**
 * An encoder with its inputs.
 * @typedef {{model: import('../onnx/model.js').Model, inputs: Record<string, any>}} Encoder
 */

/** What encoders call their result, the usual one first. */
const STATES = ['last_hidden_state', 'encoder_hidden_states', 'hidden_states', 'encoder_output'];
/** What decoders call the tokens. */
const TOKENS = new Set(['input_ids', 'decoder_input_ids']);

function fail(label, name, found, allowed) {
  throw typeError(NAME, label, `options: ${name}: found ${show(found)}, allowed ${allowed}`);
}

/**
 * @param {string} label of the decoder
 * @param {any} encoder the option
 * @returns {Encoder | undefined}
 */
function readEncoder(label, encoder) {
  if (encoder === undefined) return undefined;
  if (encoder === null || typeof encoder !== 'object') fail(label, 'encoder', encoder, '{ model, inputs }');
  requireMembers(label, encoder, ['inputs', 'model'], 'encoder: ');
  const { inputs } = encoder;
  if (inputs === null || typeof inputs !== 'object') fail(label, 'encoder: inputs', inputs, 'values by the names of the inputs');
  return { model: readModel(label, 'encoder: model', encoder.model), inputs };
}

/** @returns {import('../onnx/model.js').Model} */
function readModel(label, name, model) {
  return modelOf(model) ?? fail(label, name, model, 'an OnnxModel, or an InferenceSession of webnn-node/onnxruntime');
}

/** The decoder for the first step. */
const readFirst = (label, model) => (model === undefined ? undefined : readModel(label, 'withoutPast', model));

/** The shape of a tensor of this package, or of onnxruntime's interface. */
const shapeOf = (tensor) => tensor?.shape ?? tensor?.dims;

/** Ones for all places of an encoder's result. */
function ones({ dataType }, [rows, length]) {
  const count = rows * length;
  return { data: dataType === 'int64' ? new BigInt64Array(count).fill(1n) : dataType === 'int32' ? new Int32Array(count).fill(1) : new Float32Array(count).fill(1), shape: [rows, length] };
}

/** What an output of an encoder may be called as an input of a decoder. */
const asPast = (name) => name.replace(/^present(_key_values)?/, (_, longer) => (longer || name.includes('.') ? 'past_key_values' : 'past'));

/** The output that an input of a decoder is. */
function outputFor(input, results) {
  if (Object.hasOwn(results, input)) return results[input];
  const present = Object.keys(results).find((name) => asPast(name) === input);
  return present === undefined ? undefined : results[present];
}

/**
 * Adds what an encoder says to the inputs of a decoder.
 * @param {import('../onnx/model.js').Model} decoder
 * @param {string[]} others the inputs that need a value
 * @param {{inputs: Record<string, any>, encoder?: Encoder, first?: import('../onnx/model.js').Model, signal?: AbortSignal}} options
 * @param {Uint32Array[]} prompts
 */
async function withEncoder(decoder, others, { inputs, encoder, first, signal }, prompts) {
  const given = { ...inputs };
  const options = signal && { signal };
  const { queue } = decoder.contextState;
  const signatures = new Map([...(first?.inputs ?? []), ...decoder.inputs].map((signature) => [signature.name, signature]));
  if (encoder !== undefined) {
    const results = await runModel(encoder.model, encoder.inputs, options, queue);
    const wanted = [...others, ...(first?.inputs ?? []).map(({ name }) => name).filter((name) => !TOKENS.has(name))];
    for (const name of wanted.filter((one) => !Object.hasOwn(given, one))) {
      const value = outputFor(name, results) ?? ofEncoder(decoder.label, signatures.get(name), results, encoder.inputs);
      if (value !== undefined) given[name] = value;
    }
  }
  if (first === undefined) return given;
  const missing = others.filter((name) => !Object.hasOwn(given, name));
  const results = await runModel(first, firstInputs(decoder.label, first, given, prompts), options, queue);
  for (const name of missing) {
    const value = outputFor(name, results);
    if (value !== undefined) given[name] = value;
  }
  // What only the first one reads.
  return Object.fromEntries(Object.entries(given).filter(([name]) => others.includes(name) || !first.inputs.some((input) => input.name === name)));
}

/** The states of an encoder, and which of them count. */
function ofEncoder(label, signature, results, inputs) {
  const { name } = signature;
  if (name !== 'encoder_hidden_states' && name !== 'encoder_attention_mask') return undefined;
  const all = Object.keys(results);
  const called = STATES.find((one) => all.includes(one)) ?? (all.length === 1 ? all[0] : undefined);
  if (called === undefined) {
    throw typeError(NAME, label, `options: encoder: found the outputs ${all.map(quote).join(', ')}, allowed one with the name ${STATES.map(quote).join(' or ')}`);
  }
  if (name === 'encoder_hidden_states') return results[called];
  // Of images and sound all that there is counts.
  const [rows, length] = shapeOf(results[called]);
  const mask = shapeOf(inputs.attention_mask);
  const counts = Array.isArray(mask) && mask.length === 2 && mask[1] === length;
  return counts ? inputs.attention_mask : ones(signature, [rows, length]);
}

/** The inputs of the decoder for the first step: any token will do, since its caches of the encoder depend on none. */
function firstInputs(label, { inputs }, given, [[start]]) {
  const states = inputs.map(({ name }) => given[name]).find((value) => shapeOf(value)?.length > 1);
  const rows = states === undefined ? 1 : shapeOf(states)[0];
  const valueOf = ({ name, dataType }) => {
    if (!TOKENS.has(name)) return given[name];
    const data = dataType === 'int64' ? new BigInt64Array(rows).fill(BigInt(start)) : new Int32Array(rows).fill(start);
    return { data, shape: [rows, 1] };
  };
  const absent = inputs.find((input) => valueOf(input) === undefined && !input.optional);
  if (absent !== undefined) throw typeError(NAME, label, `options: withoutPast: found no value of its input ${quote(absent.name)}, allowed one in inputs, or an encoder that gives it`);
  return Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]).filter(([, value]) => value !== undefined));
}

module.exports = { readEncoder, readFirst, withEncoder };
