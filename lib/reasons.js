'use strict';

// Why script has given work up: the reasons of signals, by the numbers that native errors have of them (src/error.rs). A reason is kept for as long as
// the native side has such an error, which a tensor may have long after its dispatch.

/** @type {Map<number, {value: unknown}>} */
const reasons = new Map();

/**
 * @param {number} number
 * @returns {{value: unknown} | undefined}
 */
function reasonOf(number) {
  return reasons.get(number);
}

/**
 * @param {number} number
 * @param {unknown} value
 * @param {number[]} gone those that no error has any more
 */
function keepReason(number, value, gone) {
  gone.forEach((old) => reasons.delete(old));
  reasons.set(number, { value });
}

module.exports = { keepReason, reasonOf };
