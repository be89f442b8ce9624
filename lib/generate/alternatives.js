'use strict';

// The most probable tokens of a step, from its logits.

/**
 * @param {Float32Array} logits
 * @param {number} count
 * @returns {{id: number, logprob: number}[]} the most probable first
 */
function mostProbable(logits, count) {
  /** @type {number[]} */
  const best = [];
  for (let id = 0; id < logits.length; id++) {
    // It is never chosen.
    if (Number.isNaN(logits[id])) continue;
    if (best.length === count && !(logits[id] > logits[best[count - 1]])) continue;
    let at = best.length;
    while (at > 0 && logits[id] > logits[best[at - 1]]) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  const most = best.length > 0 ? logits[best[0]] : 0;
  let sum = 0;
  for (const logit of logits) if (!Number.isNaN(logit)) sum += Math.exp(above(logit, most));
  const total = Math.log(sum);
  return best.map((id) => ({ id, logprob: above(logits[id], most) - total }));
}

/** How far a logit is above the greatest one, at most 0. Infinite ones are equal. */
const above = (logit, most) => (logit === most ? 0 : logit - most);

module.exports = { mostProbable };
