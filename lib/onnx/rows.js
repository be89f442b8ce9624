'use strict';

// Rows of several callers in one tensor: joined along an axis, and divided among them again.

const { arrayOver, bytesOf, elementCount } = require('./arrays.js');
const { resultTensor } = require('./tensor.js');

/** Elements of a tensor from one place of an axis to the next. */
function innerOf(shape, axis) {
  let inner = 1;
  for (let i = axis + 1; i < shape.length; i++) inner *= shape[i];
  return inner;
}

/** A shape with so many rows along an axis; the same where there is none. */
const withRows = (shape, axis, rows) => (axis === -1 ? shape : shape.with(axis, rows));

/**
 * One array of several, along an axis.
 * @param {string} dataType
 * @param {{array: ArrayBufferView, shape: number[]}[]} parts
 * @param {number} axis
 */
function joinArrays(dataType, parts, axis) {
  const outer = elementCount(parts[0].shape.slice(0, axis));
  let length = 0;
  for (const { array } of parts) length += array.byteLength;
  const joined = new Uint8Array(length);
  let offset = 0;
  for (let i = 0; i < outer; i++) {
    for (const { array } of parts) {
      const chunk = array.byteLength / outer;
      joined.set(outer === 1 ? bytesOf(array) : bytesOf(array).subarray(i * chunk, (i + 1) * chunk), offset);
      offset += chunk;
    }
  }
  return arrayOver(dataType, joined.buffer);
}

/**
 * A caller's part of a result, in memory of its own.
 * @param {{dataType: string, shape: number[], data: any}} result
 * @param {number} axis -1 for what all have in common
 * @param {number} from the first row
 * @param {number} rows
 * @param {number} all rows
 */
function partOf({ dataType, shape, data }, axis, from, rows, all) {
  if (axis === -1) return resultTensor(dataType, data.slice(), shape.slice());
  // A row may have several places of the axis.
  const share = shape[axis] / all;
  const inner = innerOf(shape, axis) * share;
  const own = shape.with(axis, rows * share);
  const whole = all * inner;
  if (data.length === whole) return resultTensor(dataType, data.slice(from * inner, (from + rows) * inner), own);
  const part = new data.constructor(elementCount(own));
  for (let start = from * inner, to = 0; start < data.length; start += whole, to += rows * inner) part.set(data.subarray(start, start + rows * inner), to);
  return resultTensor(dataType, part, own);
}

module.exports = { joinArrays, partOf, withRows };
