'use strict';

// Copies of opSupportLimits(): script asks for it often, and may change the result. The limits are fetched once for a context. A limit has at most
// three levels: operator, operand, and its types and ranks.

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
