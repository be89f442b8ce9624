'use strict';

// Files of JSON that somebody else may have made: only regular ones, of a limited size.

const fs = require('node:fs');

/** Bytes of a file: the largest tokenizer.json of today has 34 MB. */
const LARGEST = 64 << 20;
const { O_RDONLY, O_NONBLOCK = 0 } = fs.constants;

/** The state of a file; nothing if it is not there. */
const stateOf = (file) => fs.statSync(file, { throwIfNoEntry: false });

function openFile(file) {
  try {
    // A pipe without a writer does not block this.
    return fs.openSync(file, O_RDONLY | O_NONBLOCK);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** As many bytes as a file had when it was opened. */
function readBytes(descriptor, size) {
  const bytes = Buffer.alloc(size);
  let length = 0;
  while (length < size) {
    const count = fs.readSync(descriptor, bytes, length, size - length, length);
    if (count === 0) break;
    length += count;
  }
  return bytes.subarray(0, length);
}

/** The content of a file of JSON; nothing if it is not there. */
function readJson(file) {
  const descriptor = openFile(file);
  if (descriptor === undefined) return undefined;
  try {
    const state = fs.fstatSync(descriptor);
    if (!state.isFile()) throw new Error('it is not a regular file');
    if (state.size > LARGEST) throw new Error(`found ${state.size} bytes, allowed ${LARGEST}`);
    return JSON.parse(readBytes(descriptor, state.size).toString());
  } finally {
    fs.closeSync(descriptor);
  }
}

module.exports = { readJson, stateOf };
