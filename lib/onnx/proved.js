'use strict';

// Finds the axes for which something is proved. A proof needs sizes for all open dimensions, and models do not take any sizes.

/**
 * The first axes for which something is proved, by the first sizes that prove anything. Axes that no sizes can try are the last choice: the first
 * runs find out about them.
 * @template T
 * @param {number[][]} candidates the axes of each input
 * @param {((axes: number[]) => Promise<T | undefined>)[]} ways proofs with different sizes; each gives why it is refused, or nothing, and rejects if the
 *   model does not take the sizes
 * @returns {Promise<{axes?: number[], refused?: T}>} neither without candidates
 */
async function findProved(candidates, ways) {
  /** @type {Map<number[], T>} */
  const refused = new Map();
  for (const prove of ways) {
    for (const axes of candidates) {
      if (refused.has(axes)) continue;
      try {
        const reason = await prove(axes);
        if (reason === undefined) return { axes };
        refused.set(axes, reason);
      } catch {
        // Perhaps it takes others.
      }
    }
  }
  const unknown = candidates.find((axes) => !refused.has(axes));
  return unknown === undefined ? { refused: refused.get(candidates[0]) } : { axes: unknown };
}

module.exports = { findProved };
