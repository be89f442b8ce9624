'use strict';

// onnxruntime-node throws plain errors for all that goes wrong with models and runs.

/** The error for what the engine reports; a program's own mistakes are those of the options' and values' checks. */
function plain(error) {
  return error instanceof DOMException || error instanceof TypeError || error instanceof RangeError ? new Error(error.message, { cause: error }) : error;
}

module.exports = { plain };
