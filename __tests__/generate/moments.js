'use strict';

// Calls of generate() that are cancelled at all moments: at turns of the event loop, ever more of them, and after each token.

const { generate } = require('webnn-node/generate');

/**
 * @param {object} model
 * @param {number[]} ids the prompt
 * @param {object} options
 * @returns {Promise<{outcomes: Array<number[] | 'its reason' | unknown>, cancelled: number}>} what each call has come to, and how many were cancelled
 */
async function cancelAtAllMoments(model, ids, options) {
  const outcomes = [];
  let cancelled = 0;
  const run = async (signal, each) => {
    const found = [];
    for await (const { id } of generate(model, ids, { ...options, signal })) {
      found.push(id);
      each();
    }
    return found;
  };
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
  const after = (count) => (abort) => {
    let left = count;
    return { each: () => left-- === 0 && abort() };
  };
  for (let count = 0; !Array.isArray(await call(after(count))); count++);
  return { outcomes, cancelled };
}

module.exports = { cancelAtAllMoments };
