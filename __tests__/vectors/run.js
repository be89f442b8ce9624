'use strict';

// Runs a conformance case as a user would write it, and says what is wrong with the result.

const { MLGraphBuilder } = require('../..');
const { distance } = require('./distance.js');
const { count, decode, encode, float16Value, isNumber, number } = require('./elements.js');

// Of an output that one number fills, so many elements are compared.
const COMPARED_WHEN_FILLED = 1000;

/**
 * The operands that a case's graph has for its outputs.
 * @returns {Record<string, MLOperand>}
 */
function describeGraph(builder, { inputs, operators, expectedOutputs }) {
  const operands = new Map();
  for (const [name, { data, descriptor, constant }] of Object.entries(inputs)) {
    operands.set(name, constant ? builder.constant(descriptor, encode(descriptor, data)) : builder.input(name, descriptor));
  }
  for (const { name, arguments: labelled, outputs } of operators) {
    const values = labelled.flatMap((argument) => Object.values(argument)).map((json) => value(operands, json));
    // Some cases are older than the required axis of softmax; they mean the last one.
    if (name === 'softmax' && values.length === 1) values.push(values[0].shape.length - 1);
    const made = builder[name](...values);
    if (Array.isArray(outputs)) outputs.forEach((output, i) => operands.set(output, made[i]));
    else operands.set(outputs, made);
  }
  return Object.fromEntries(Object.keys(expectedOutputs).map((name) => [name, operands.get(name)]));
}

/** A value of a call: the operand that it names, or what it is. */
function value(operands, json) {
  if (Array.isArray(json)) return json.map((element) => value(operands, element));
  if (typeof json === 'object' && json !== null) {
    return Object.fromEntries(Object.entries(json).map(([name, member]) => [name, value(operands, member)]));
  }
  if (operands.has(json)) return operands.get(json);
  return isNumber(json) ? number(json) : json;
}

/** Builds, dispatches and reads. @returns {Promise<Record<string, ArrayBuffer>>} */
async function compute(context, { graph: described }) {
  const builder = new MLGraphBuilder(context);
  const operands = describeGraph(builder, described);
  for (const [name, { descriptor }] of Object.entries(described.expectedOutputs)) {
    expect({ name, dataType: operands[name].dataType, shape: [...operands[name].shape] }).toEqual({ name, ...descriptor });
  }
  const graph = await builder.build(operands);
  const given = Object.entries(described.inputs).filter(([, input]) => !input.constant);
  const inputs = {};
  for (const [name, { data, descriptor }] of given) {
    inputs[name] = await context.createTensor({ ...descriptor, writable: true });
    context.writeTensor(inputs[name], encode(descriptor, data));
  }
  const outputs = {};
  for (const [name, { descriptor }] of Object.entries(described.expectedOutputs)) {
    outputs[name] = await context.createTensor({ ...descriptor, readable: true });
  }
  context.dispatch(graph, inputs, outputs);
  const results = {};
  for (const name of Object.keys(outputs)) results[name] = await context.readTensor(outputs[name]);
  for (const object of [graph, ...Object.values(inputs), ...Object.values(outputs)]) object.destroy();
  return results;
}

/** Fails the test with the first element of each output that is too far away. */
function compare(results, { graph, tolerance }) {
  const problems = [];
  for (const [name, { data, descriptor }] of Object.entries(graph.expectedOutputs)) {
    const { dataType, shape } = descriptor;
    const length = count(shape);
    const expected = decode(dataType, encode(descriptor, data).buffer, length);
    const found = decode(dataType, results[name], length);
    const measure = distance(tolerance.metric, dataType);
    const compared = Array.isArray(data) ? length : Math.min(length, COMPARED_WHEN_FILLED);
    const wrong = [];
    // A distance that is not a number is too far away as well.
    for (let i = 0; i < compared; i++) if (!(measure(found[i], expected[i]) <= tolerance.value)) wrong.push(i);
    if (wrong.length === 0) continue;
    const [i] = wrong;
    const show = dataType === 'float16' ? float16Value : String;
    problems.push(
      `${name}[${i}] is ${show(found[i])}, not ${show(expected[i])}: ${measure(found[i], expected[i])} away by ${tolerance.metric}, ` +
        `allowed ${tolerance.value} (${wrong.length} of ${compared} elements)`,
    );
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

/** @param {MLContext} context */
async function run(context, vector) {
  if (vector.contradicts !== undefined) {
    expect(() => describeGraph(new MLGraphBuilder(context), vector.graph)).toThrow(TypeError);
    return;
  }
  compare(await compute(context, vector), vector);
}

module.exports = { describeGraph, run };
