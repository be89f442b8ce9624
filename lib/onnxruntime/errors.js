'use strict';

// onnxruntime-node throws plain errors for all failures of models and runs.

/** The error for what the engine reports; a program's own mistakes are those of the options' and values' checks. */
function plain(error) {
  return error instanceof DOMException || error instanceof TypeError || error instanceof RangeError ? new Error(error.message, { cause: error }) : error;
}

/** A number as C++ prints it: with six digits. */
function printed(number) {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? 'nan' : number > 0 ? 'inf' : '-inf';
  const rounded = Number(number.toPrecision(6));
  const size = Math.abs(rounded);
  if (Object.is(rounded, -0)) return '-0';
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return `${rounded}`;
  return rounded.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

module.exports = { plain, printed };
