// @ts-check
'use strict';

const fs = require('node:fs');

/**
 * @typedef {object} Tensor
 * @property {number[]} shape
 * @property {Float32Array | Uint8Array} data
 */

/**
 * Reads a safetensors file: eight bytes with the length of the header, a JSON
 * header, then the raw little-endian data. Knows the two types used here.
 *
 * @param {string} file
 * @returns {Record<string, Tensor>}
 */
function readSafetensors(file) {
  const bytes = fs.readFileSync(file);
  const headerLength = Number(bytes.readBigUInt64LE(0));
  const dataStart = 8 + headerLength;
  const header = JSON.parse(bytes.toString('utf8', 8, dataStart));

  /** @type {Record<string, Tensor>} */
  const tensors = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const [start, end] = entry.data_offsets;
    // A copy, because a Float32Array must start at a multiple of four bytes.
    const raw = Uint8Array.from(bytes.subarray(dataStart + start, dataStart + end));
    tensors[name] = { shape: entry.shape, data: typedArray(entry.dtype, raw) };
  }
  return tensors;
}

/**
 * @param {string} dtype
 * @param {Uint8Array<ArrayBuffer>} raw
 */
function typedArray(dtype, raw) {
  if (dtype === 'F32') return new Float32Array(raw.buffer);
  if (dtype === 'U8') return raw;
  throw new Error(`cannot read safetensors data of type ${dtype}`);
}

module.exports = { readSafetensors };
