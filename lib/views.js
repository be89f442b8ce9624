'use strict';

// Checks the memory that compute() gets for the inputs and outputs of a graph.

const { types } = require('node:util');
const { bufferOf, byteLength, byteOffset, isDetached, isResizable } = require('./buffers.js');
const { Mismatch, typeError } = require('./errors.js');
const { quote, viewName, withArticle } = require('./show.js');
const { record } = require('./webidl.js');

/** `ArrayBufferView`; the object itself, since its memory is looked at when everything has been converted. */
function arrayBufferView(value) {
  if (ArrayBuffer.isView(value)) return value;
  throw new Mismatch(value, 'a typed array or a DataView');
}

/** `record<USVString, ArrayBufferView>` */
const namedViews = record(arrayBufferView);

/**
 * Checks views against a graph: names, data types, lengths, and that nothing else lies where an output goes.
 * @param {string} operator
 * @param {string} label
 * @param {import('./states').GraphState} graph
 * @param {{names: string[], values: ArrayBufferView[]}} inputs all of the graph's
 * @param {{names: string[], values: ArrayBufferView[]}} outputs those that are wanted
 * @returns {{inputs: ArrayBufferView[], outputs: (ArrayBufferView | undefined)[]}} in the graph's order
 */
function bindViews(operator, label, graph, inputs, outputs) {
  const wrong = (detail) => typeError(operator, label, detail);
  if (outputs.names.length === 0) throw wrong(`outputs: found no name, allowed at least one of ${list(graph.outputs.keys())}`);
  if (inputs.names.length !== graph.inputs.size) {
    throw wrong(`inputs: found ${list(inputs.names)}, allowed exactly the graph's ${list(graph.inputs.keys())}`);
  }
  const bound = {
    inputs: bind(wrong, 'inputs', inputs, graph.inputs),
    outputs: bind(wrong, 'outputs', outputs, graph.outputs),
  };
  requireApart(wrong, inputs, outputs);
  return bound;
}

function bind(wrong, argument, { names, values }, descriptors) {
  const bound = new Array(descriptors.size).fill(undefined);
  for (let i = 0; i < names.length; i++) {
    const descriptor = descriptors.get(names[i]);
    if (descriptor === undefined) {
      throw wrong(`${argument}: found the name ${quote(names[i])}, allowed the graph's ${list(descriptors.keys())}`);
    }
    const problem = whatIsWrong(values[i], descriptor);
    if (problem !== undefined) throw wrong(`${argument}: ${quote(names[i])}: ${problem}`);
    bound[descriptor.position] = values[i];
  }
  return bound;
}

function whatIsWrong(view, { views, byteLength: wanted, text }) {
  const buffer = bufferOf(view);
  if (types.isSharedArrayBuffer(buffer)) return 'found a view of a SharedArrayBuffer, allowed one of an ArrayBuffer';
  if (isDetached(buffer)) return 'found a view of a detached ArrayBuffer, allowed one that still has its memory';
  // Its memory could be taken away while kernels work on it.
  if (isResizable(buffer)) return 'found a view of a resizable ArrayBuffer, allowed one of a fixed length';
  if (types.isTypedArray(view) && !views.includes(viewName(view))) {
    return `found ${withArticle(viewName(view))}, allowed for ${text} ${views.join(', ')} or a DataView`;
  }
  const found = byteLength(view);
  return found === wanted ? undefined : `found ${found} bytes, allowed the ${wanted} bytes of ${text}`;
}

/** Outputs overlap neither each other nor inputs; inputs may be the same memory. */
function requireApart(wrong, inputs, outputs) {
  const ranges = rangesOf(inputs, false).concat(rangesOf(outputs, true));
  // By buffer, then by where they begin: what overlaps an output shows as a beginning before the furthest end so far.
  const numbers = new Map();
  ranges.forEach(({ buffer }) => numbers.has(buffer) || numbers.set(buffer, numbers.size));
  ranges.sort((a, b) => numbers.get(a.buffer) - numbers.get(b.buffer) || a.start - b.start);
  let last, lastOutput;
  for (let i = 0; i < ranges.length; i++) {
    const range = ranges[i];
    if (last?.buffer !== range.buffer) last = lastOutput = undefined;
    const other = range.isOutput ? last : lastOutput;
    if (other !== undefined && other.end > range.start) {
      const [output, overlapped] = range.isOutput ? [range, other] : [other, range];
      const what = `found memory that overlaps that of ${quote(overlapped.name)}, allowed memory of its own`;
      throw wrong(`outputs: ${quote(output.name)}: ${what}`);
    }
    if (last === undefined || range.end > last.end) last = range;
    if (range.isOutput && (lastOutput === undefined || range.end > lastOutput.end)) lastOutput = range;
  }
}

function rangesOf({ names, values }, isOutput) {
  return values.map((view, i) => {
    const start = byteOffset(view);
    return { name: names[i], buffer: bufferOf(view), start, end: start + byteLength(view), isOutput };
  });
}

function list(names) {
  const quoted = [...names].map(quote);
  return quoted.length === 0 ? 'no name' : quoted.join(', ');
}

module.exports = { bindViews, namedViews };
