'use strict';

// Calls that are cancelled at all moments: at turns of the event loop, ever more of them, and behind each token.

/**
 * @param {(signal?: AbortSignal, each?: () => void) => Promise<number[]>} run a call, which says when it has a token
 * @returns {Promise<{outcomes: Array<number[] | 'its reason' | unknown>, cancelled: number}>} what each call has come to, and how many were cancelled
 */
async function cancelAtAllMoments(run) {
  const outcomes = [];
  let cancelled = 0;
  const call = async (begin) => {
    const [controller, reason] = [new AbortController(), new Error('on purpose')];
    const { each, end } = begin(() => controller.abort(reason));
    const outcome = await run(controller.signal, each).catch((error) => error);
    end?.();
    outcomes.push(outcome === reason ? 'its reason' : outcome);
    if (outcome === reason) cancelled++;
    return outcome;
  };
  const atTurn = (turns) => (abort) => {
    let left = turns;
    let isOver = false;
    const turn = () => {
      if (isOver) return;
      if (left-- <= 0) abort();
      else setImmediate(turn);
    };
    turn();
    return { each() {}, end: () => { isOver = true; } };
  };
  for (let turns = 0; !Array.isArray(await call(atTurn(turns))); turns = Math.ceil(1.3 * turns) + 1);
  const behind = (count) => (abort) => {
    let left = count;
    return { each: () => left-- === 0 && abort() };
  };
  for (let count = 0; !Array.isArray(await call(behind(count))); count++);
  return { outcomes, cancelled };
}

module.exports = { cancelAtAllMoments };
