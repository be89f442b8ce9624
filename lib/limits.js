'use strict';

// opSupportLimits() is asked for often, and script may change what it gets: a fresh copy each time, of limits that are
// fetched once per context. A limit has at most three levels: operator, operand, and its types and ranks.

function copyTensorLimits({ dataTypes, rankRange: { min, max } }) {
  return { dataTypes: dataTypes.slice(), rankRange: { min, max } };
}

/** Copies MLOpSupportLimits. */
function copyLimits(limits) {
  const copy = { ...limits };
  for (const member in copy) {
    const value = copy[member];
    if (typeof value !== 'object') continue;
    copy[member] = 'rankRange' in value ? copyTensorLimits(value) : copyOperands(value);
  }
  return copy;
}

function copyOperands(operands) {
  const copy = { ...operands };
  for (const operand in copy) copy[operand] = copyTensorLimits(copy[operand]);
  return copy;
}

module.exports = { copyLimits };
