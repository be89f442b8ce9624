'use strict';

// Checks indices from the host before a graph reads them on the device, which would clamp those out of range (src/backend/wgpu/program.rs).

const { bufferFor } = require('../descriptor.js');

/** Contents of more bytes are not kept. */
const MOST_KNOWN = 1 << 16;

/**
 * @typedef {object} Check
 * @property {number} input the position of the graph's input
 * @property {import('../native').DataType} dataType
 * @property {number[]} sizes one for all indices, or one for each coordinate
 * @property {boolean} fromEnd whether negative indices count from the end
 * @property {number[]} shape
 * @property {string} label the node's name
 */

/**
 * The first index that is outside.
 * @param {Check} check
 * @param {Uint8Array} bytes
 * @returns {import('../native').Cause | undefined}
 */
function outside(check, bytes) {
  const { dataType, sizes, fromEnd, shape } = check;
  const View = globalThis[bufferFor(dataType, shape).views[0]];
  // A copy is aligned.
  const indices = /** @type {ArrayLike<number | bigint>} */ (new View(bytes.slice().buffer));
  const isWithin = (i) => {
    const size = sizes[i % sizes.length];
    return indices[i] < size && indices[i] >= (fromEnd ? -size : 0);
  };
  let position = 0;
  while (position < indices.length && isWithin(position)) position += 1;
  return position === indices.length ? undefined : describe(check, position, indices[position]);
}

/**
 * The failure of a run: what was found where, and what is allowed.
 * @param {Check} check
 * @param {number} position
 * @param {number | bigint} index
 * @returns {import('../native').Cause}
 */
function describe({ sizes, fromEnd, shape, label }, position, index) {
  let rest = position;
  const place = shape.map((_, axis) => {
    const size = shape[shape.length - 1 - axis];
    const at = rest % size;
    rest = Math.floor(rest / size);
    return at;
  });
  const where = shape.length > 0 ? ` at [${place.reverse().join(', ')}]` : '';
  const size = sizes[position % sizes.length];
  const message = `node ${label}: found the index ${index}${where}, allowed ${fromEnd ? -size : 0} to ${size - 1}`;
  return { code: 'OperationError', message };
}

/**
 * The first failure of a graph's inputs, as far as they are known.
 * @param {Check[]} checks
 * @param {(Uint8Array | undefined)[]} known
 */
function refusal(checks, known) {
  for (const check of checks) {
    const bytes = known[check.input];
    const failure = bytes && outside(check, bytes);
    if (failure !== undefined) return failure;
  }
  return undefined;
}

module.exports = { MOST_KNOWN, describe, refusal };
