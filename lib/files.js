'use strict';

// Reads files that script names, if they are regular ones: a device may have no end, and to open a pipe may wait for ever.

const { constants, promises } = require('node:fs');
const { getSystemErrorMap } = require('node:util');
const { exception, named } = require('./errors.js');
const { escapeText } = require('./show.js');

/** What a path may lead to, by the predicates of `fs.Stats`. */
const KINDS = { isDirectory: 'a folder', isFIFO: 'a pipe', isSocket: 'a socket' };

/** What a path leads to; nothing for a regular file. */
function otherKind(stats) {
  if (stats.isFile()) return undefined;
  const known = Object.keys(KINDS).find((is) => stats[is]());
  return known === undefined ? 'a device' : KINDS[known];
}

/** The reason that a system gives, without the path, which the message has. */
const reasonOf = (error) => getSystemErrorMap().get(error.errno)?.[1] ?? error.message;

/**
 * The bytes of a file, or of the file that a link leads to.
 * @param {string} operator
 * @param {string} label
 * @param {string} path
 * @returns {Promise<Uint8Array>}
 */
async function readRegularFile(operator, label, path) {
  const failure = (detail) => exception('OperationError', `${named(operator, label)}: ${escapeText(path)} ${detail}`);
  const requireRegular = (stats) => {
    const other = otherKind(stats);
    if (other !== undefined) throw failure(`is not a regular file but ${other}`);
  };
  let file;
  try {
    requireRegular(await promises.stat(path));
    // Something else may have taken its place: then this does not wait.
    file = await promises.open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stats = await file.stat();
    requireRegular(stats);
    return await readAll(file, stats.size);
  } catch (error) {
    if (error instanceof DOMException) throw error;
    throw Object.defineProperty(failure(`cannot be read: ${reasonOf(error)}`), 'cause', { value: error, writable: true, configurable: true });
  } finally {
    await file?.close();
  }
}

/** The first bytes of a file: what is written meanwhile is not read. */
async function readAll(file, size) {
  const bytes = new Uint8Array(size);
  let count = 0;
  while (count < size) {
    const { bytesRead } = await file.read(bytes, count, size - count, count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return bytes.subarray(0, count);
}

module.exports = { readRegularFile };
