'use strict';

// Lists of tokens, as script may give them.

const { types } = require('node:util');

/** Whether something is a number that a token may have. */
const isToken = (id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31;

/** Whether something is a number that a token of a prompt may have for which features stand. */
const isPlaceholder = (id) => Number.isInteger(id) && id >= -(2 ** 31) && id < 2 ** 31;

/**
 * Numbers of a list of tokens, if it is one.
 * @param {unknown} list
 * @returns {number[] | undefined}
 */
function tokensOf(list) {
  if (types.isTypedArray(list)) return Array.from(list, Number);
  if (!Array.isArray(list)) return undefined;
  return list.every((id) => typeof id === 'number' || typeof id === 'bigint') ? list.map(Number) : undefined;
}

module.exports = { isPlaceholder, isToken, tokensOf };
