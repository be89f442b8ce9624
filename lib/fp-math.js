'use strict';

// The option fpMath (docs/extensions.md B7), for options that are no WebIDL dictionary.

const { typeError } = require('./errors.js');
const { show } = require('./show.js');

/** @type {('strict' | 'bf16')[]} */
const FP_MATH = ['strict', 'bf16'];

/** An option of that name; absent it is '', which is what the context says. */
function fpMathOption(operator, label, fpMath) {
  if (fpMath === undefined) return '';
  if (FP_MATH.includes(fpMath)) return fpMath;
  throw typeError(operator, label, `options: fpMath: found ${show(fpMath)}, allowed 'strict' or 'bf16'`);
}

module.exports = { FP_MATH, fpMathOption };
