'use strict';

// The option performance (docs/extensions.md C22): how a context divides its threads among its runs.

const { Mismatch } = require('./errors.js');
const { enforcedUnsignedLong, enumeration } = require('./webidl.js');

const HINTS = ['latency', 'throughput'];
const ALLOWED = "'latency', 'throughput' or a whole number from 1 to 4294967295";
const hint = enumeration(HINTS);

/**
 * A hint, or a number of streams: a fraction of one would be a mistake.
 * @returns {string} for the native side
 */
function performanceOption(value) {
  try {
    if (typeof value !== 'number') return HINTS[hint(value)];
    if (Number.isInteger(value) && enforcedUnsignedLong(value) > 0) return `${value}`;
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
  }
  throw new Mismatch(value, ALLOWED);
}

module.exports = { performanceOption };
