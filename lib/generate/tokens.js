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
  // Holes are elements, too.
  const all = Array.from(list);
  return all.every(isNumber) ? all.map(Number) : undefined;
}

const isNumber = (value) => typeof value === 'number' || typeof value === 'bigint';

/** Whether something is a token as the key of an object or of a Map: its number, or that in decimal digits. */
const isTokenKey = (key) => (typeof key === 'string' ? /^(0|[1-9][0-9]*)$/.test(key) : isNumber(key)) && isToken(Number(key));

/** What is wrong with a list of tokens: its first other element, or the list, if it is something else. */
function otherThanTokens(list) {
  if (!Array.isArray(list) && !types.isTypedArray(list)) return list;
  return Array.from(list).find((id) => !isNumber(id) || !isToken(Number(id)));
}

module.exports = { isPlaceholder, isToken, isTokenKey, otherThanTokens, tokensOf };
