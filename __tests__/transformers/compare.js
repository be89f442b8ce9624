'use strict';

// Two engines' runs of the same pipelines, as child.mjs wrote them, beside each other.

/** The elements of an array as numbers. */
const numbersOf = (data) => Float64Array.from(data, Number);

/** The largest difference, relative to the largest value; Infinity where shapes, types or NaN differ. */
function largestError(found, expected) {
  if (`${found.dims}` !== `${expected.dims}` || found.type !== expected.type) return Infinity;
  const [a, b] = [numbersOf(found.data), numbersOf(expected.data)];
  let [most, largest] = [0, Number.MIN_VALUE];
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i] || (Number.isNaN(a[i]) && Number.isNaN(b[i]))) continue;
    const difference = Math.abs(a[i] - b[i]);
    if (!(difference < Infinity)) return Infinity;
    most = Math.max(most, difference);
  }
  for (const value of b) if (Math.abs(value) < Infinity) largest = Math.max(largest, Math.abs(value));
  return most / largest;
}

/** The sum of squared differences, and that of squares. */
function squares(found, expected) {
  const [a, b] = [numbersOf(found.data), numbersOf(expected.data)];
  let [differences, values] = [0, 0];
  for (let i = 0; i < a.length; i++) {
    if (!Number.isFinite(b[i])) continue;
    differences += (a[i] - b[i]) ** 2;
    values += b[i] ** 2;
  }
  return [differences, values];
}

/** A run of the same session on equal integers, such as the tokens so far. What is not an integer comes from earlier runs. */
function isSameCall(a, b) {
  if (withoutDtype(a.file) !== withoutDtype(b.file)) return false;
  return Object.keys(a.inputs).every((name) => {
    const [x, y] = [a.inputs[name], b.inputs[name]];
    if (y === undefined || `${x.dims}` !== `${y.dims}`) return false;
    return !(x.data instanceof BigInt64Array) || x.data.every((value, i) => value === y.data[i]);
  });
}

const withoutDtype = (file) => file?.replace(/(_(fp16|int8|uint8|quantized|q4|q4f16|bnb4|q2|q2f16|q1|q1f16))?\.onnx$/, '');

/** The runs of both up to where they were asked for different things. */
function pairs(found, expected) {
  const list = [];
  for (let i = 0; i < Math.min(found.length, expected.length) && isSameCall(found[i], expected[i]); i++) list.push([found[i], expected[i]]);
  return list;
}

/** The error of all outputs up to there against those of the float32 model: the root of the mean square, relative to theirs. */
function meanError(list) {
  let [differences, values] = [0, 0];
  for (const [found, expected] of list) {
    for (const [name, output] of Object.entries(found.outputs)) {
      const exact = expected.outputs[name];
      if (`${output.dims}` !== `${exact.dims}`) return Infinity;
      const [difference, value] = squares(output, exact);
      differences += difference / (value || 1);
      values++;
    }
  }
  return Math.sqrt(differences / values);
}

/**
 * Where two engines' runs part, unless the scores of what they chose there are nearer than the engines' own difference: undefined where
 * they do not, or the number of the run.
 */
function tokensDiffer(found, expected) {
  const list = pairs(found, expected);
  if (list.length === found.length && list.length === expected.length) return undefined;
  const last = list.at(-1);
  if (last === undefined) return 0;
  for (const [name, output] of Object.entries(last[1].outputs)) {
    if (!/logits/.test(name)) continue;
    const width = output.dims.at(-1);
    const [a, b] = [last[0].outputs[name], output].map(({ data }) => Array.from(data.slice(-width), Number));
    const [best, second] = [...b].sort((x, y) => y - x);
    const difference = Math.max(...a.map((value, i) => Math.abs(value - b[i])));
    if (best - second <= 2 * difference) return undefined;
  }
  return list.length;
}

module.exports = { largestError, meanError, pairs, tokensDiffer };
