'use strict';

// Measures runs: rounds with a number of runs in flight.

/** Of each number of runs in flight; the confidence interval of a median needs some. */
const ROUNDS = 10;
const FEWEST = 3;

/**
 * A round: as many lanes as runs may be in flight, each of which starts its next run when the last one is done.
 * @param {() => Promise<unknown>} run
 * @param {number} inFlight
 * @param {number} ms for which runs are started
 */
async function measureRound(run, inFlight, ms) {
  const times = [];
  const start = performance.now();
  const lane = async () => {
    do {
      const began = performance.now();
      await run();
      times.push(performance.now() - began);
    } while (performance.now() - start < ms);
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return { times, perSecond: (times.length / (performance.now() - start)) * 1000 };
}

/**
 * How long rounds are, and how many, if a run takes so long. A slow model has fewer rounds, since all runs in flight must end.
 * @param {number} seconds for all
 * @param {number[]} levels numbers of runs in flight
 * @param {number} runMs
 */
function planRounds(seconds, levels, runMs) {
  const longest = runMs * levels.reduce((sum, level) => sum + level, 0);
  const rounds = Math.max(FEWEST, Math.min(ROUNDS, Math.floor((seconds * 1000) / longest)));
  return { rounds, ms: (seconds * 1000) / rounds / levels.length };
}

module.exports = { measureRound, planRounds };
