'use strict';

// Warnings of the process (docs/profiling.md): each once, with a code by which it can be silenced.

const { process } = require('./globals.js');

/** What has been emitted. Several copies of this module may be in a process. */
const EMITTED = Symbol.for('webnn-node.warnings');

/**
 * @param {string} code
 * @param {string} message
 */
function emitWarning(code, message) {
  if (!Object.hasOwn(process, EMITTED)) Object.defineProperty(process, EMITTED, { value: new Set() });
  const emitted = process[EMITTED];
  if (emitted.has(code)) return;
  emitted.add(code);
  process.emitWarning(message, { type: 'WebNNWarning', code });
}

module.exports = { emitWarning };
