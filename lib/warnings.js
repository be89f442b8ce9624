'use strict';

// Warnings of the process (docs/profiling.md): each once, with a code by which it can be silenced.

const { process } = require('./globals.js');

/** What has been told. Several copies of this module may be in a process. */
const TOLD = Symbol.for('webnn-node.warnings');

/**
 * @param {string} code
 * @param {string} message
 */
function emitWarning(code, message) {
  if (!Object.hasOwn(process, TOLD)) Object.defineProperty(process, TOLD, { value: new Set() });
  const told = process[TOLD];
  if (told.has(code)) return;
  told.add(code);
  process.emitWarning(message, { type: 'WebNNWarning', code });
}

module.exports = { emitWarning };
