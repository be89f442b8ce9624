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

/**
 * Copies a box of elements from one tensor to another.
 * @param {{data: any, shape: number[], first: number[]}} from
 * @param {{data: any, shape: number[], first: number[]}} to
 * @param {number[]} sizes of the box
 */
function copyBox(from, to, sizes) {
  // What is whole in both lies together.
  let last = sizes.length - 1;
  while (last > 0 && sizes[last] === from.shape[last] && sizes[last] === to.shape[last]) last--;
  const copy = (axis, source, target) => {
    const [inner, innerTo] = [innerOf(from.shape, axis), innerOf(to.shape, axis)];
    const [start, startTo] = [source + (from.first[axis] ?? 0) * inner, target + (to.first[axis] ?? 0) * innerTo];
    if (axis >= last) {
      to.data.set(from.data.subarray(start, start + (sizes[axis] ?? 1) * inner), startTo);
      return;
    }
    for (let i = 0; i < sizes[axis]; i++) copy(axis + 1, start + i * inner, startTo + i * innerTo);
  };
  if (!sizes.includes(0)) copy(0, 0, 0);
}

/**
 * One array of several that are shorter: each is filled up with zeros.
 * @param {string} dataType
 * @param {{array: any, shape: number[]}[]} parts
 * @param {number} axis along which they are joined
 * @param {number[]} shape of all
 */
function joinShorter(dataType, parts, axis, shape) {
  const data = arrayOver(dataType, new ArrayBuffer(elementCount(shape) * parts[0].array.BYTES_PER_ELEMENT));
  const first = shape.map(() => 0);
  for (const { array, shape: own } of parts) {
    // Others of the same width are taken for it, too.
    const elements = arrayOver(dataType, array.buffer, array.byteOffset, array.length);
    copyBox({ data: elements, shape: own, first: [] }, { data, shape, first }, own);
    first[axis] += own[axis];
  }
  return data;
}

/**
 * A caller's part of a result, as {@link partOf}, of which only the beginning counts in each row.
 * @param {{dataType: string, shape: number[], data: any}} result
 * @param {number} axis -1 for what all have in common
 * @param {number} from the first row
 * @param {number} rows
 * @param {number} all rows
 * @param {number[]} one the shape of what counts of one row
 */
function beginningOf({ dataType, shape, data }, axis, from, rows, all, one) {
  const own = axis === -1 ? one.slice() : one.with(axis, rows * one[axis]);
  const part = new data.constructor(elementCount(own));
  const [first, firstTo] = [shape.map(() => 0), one.map(() => 0)];
  for (let row = 0; row < (axis === -1 ? 1 : rows); row++) {
    if (axis !== -1) {
      first[axis] = (from + row) * (shape[axis] / all);
      firstTo[axis] = row * one[axis];
    }
    copyBox({ data, shape, first }, { data: part, shape: own, first: firstTo }, one);
  }
  return resultTensor(dataType, part, own);
}

module.exports = { beginningOf, joinShorter, joinArrays, partOf, withRows };
