'use strict';

// Warnings of the process (docs/profiling.md): each once, with a code by which it can be silenced.

const { process } = require('./globals.js');

const told = new Set();

/**
 * @param {string} code
 * @param {string} message
 */
function emitWarning(code, message) {
  if (told.has(code)) return;
  told.add(code);
  process.emitWarning(message, { type: 'WebNNWarning', code });
}

module.exports = { emitWarning };
