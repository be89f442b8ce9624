'use strict';

// Watches runs: a caller can cancel them, or get the times of their steps.

const { performance } = require('node:perf_hooks');
const native = require('../native.js');
const { destroyWatch, giveUp, isSignal, whenAborted } = require('../cancelling.js');
const { typeError } = require('../errors.js');
const { show } = require('../show.js');
const { trace } = require('../trace.js');
const { stepsOf } = require('./profile.js');

/** Tells work that its caller has given up. */
class Life {
  isOver = false;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {() => void} tell is called once */
  whenOver(tell) {
    if (this.isOver) tell();
    else this.#waiting.push(tell);
  }

  end() {
    this.isOver = true;
    for (const tell of this.#waiting.splice(0)) tell();
  }
}

/**
 * Does something that a caller may give up. It is rejected at once then, with the reason; what has begun natively ends as soon as it can.
 * @template T
 * @param {((stop: (reason: unknown) => void) => () => void) | undefined} watching calls back when the caller gives up; gives what ends
 *   the watching
 * @param {(watch: number, life?: Life) => Promise<T>} work
 * @param {(steps: import('../native').Step[]) => void} [tell] gets the steps of the run
 * @returns {Promise<T>}
 */
function watched(watching, work, tell = undefined) {
  return watching === undefined && tell === undefined ? work(0) : under(watching, work, tell);
}

/**
 * Does a run that belongs into the trace of the process.
 * @template T
 * @param {import('./model.js').Model} model
 * @param {import('./model.js').Wish} wish
 * @param {(wish: import('./model.js').Wish) => Promise<T>} work
 * @returns {Promise<T>}
 */
function inTrace(model, wish, work) {
  const began = performance.now();
  const note = (steps) => trace.steps(model.label, began, stepsOf(steps), model.peak);
  // What watches it already gets the steps, too.
  if (wish.watch > 0) {
    noted.set(wish.watch, note);
    return work(wish);
  }
  return under(undefined, (watch) => work({ ...wish, watch }), note);
}

/** By a watch: notes the steps of its run in the trace. @type {Map<number, (steps: import('../native').Step[]) => void>} */
const noted = new Map();

async function under(watching, work, tell) {
  const watch = native.createWatch(tell !== undefined || trace !== undefined);
  const life = new Life();
  const result = work(watch, life);
  const end = () => {
    const note = noted.get(watch);
    if (tell !== undefined || note !== undefined) {
      const steps = native.takeSteps(watch);
      tell?.(steps);
      note?.(steps);
      noted.delete(watch);
    }
    destroyWatch(watch);
  };
  const ended = result.then(
    (value) => (end(), value),
    (error) => {
      end();
      throw error;
    },
  );
  if (watching === undefined) return ended;
  // The caller may have stopped waiting.
  ended.catch(() => {});
  let unwatch;
  const stopped = new Promise((_, reject) => {
    unwatch = watching((reason) => {
      giveUp(watch, reason);
      life.end();
      reject(reason);
    });
  });
  try {
    return await Promise.race([ended, stopped]);
  } finally {
    unwatch();
  }
}

/**
 * Watches an AbortSignal, of any realm.
 * @param {AbortSignal | undefined} signal
 */
function onAbort(signal) {
  if (signal === undefined) return undefined;
  return (stop) => whenAborted(signal, () => stop(signal.reason));
}

/**
 * @param {string} operator
 * @param {string} label
 * @param {any} signal
 */
function requireSignal(operator, label, signal) {
  if (signal === undefined || isSignal(signal)) return;
  throw typeError(operator, label, `options: signal: found ${show(signal)}, allowed an AbortSignal`);
}

/**
 * Loads a model. If the signal is aborted, this rejects at once, and a model that comes all the same is destroyed.
 * @template {{destroy(): void}} T
 * @param {AbortSignal | undefined} signal that is not aborted
 * @param {(watch: number, life?: Life) => Promise<T>} load
 * @returns {Promise<T>}
 */
function loadWatched(signal, load) {
  const work = (watch, life) => {
    const loading = load(watch, life);
    if (life === undefined) return loading;
    return loading.then((model) => {
      if (life.isOver) model.destroy();
      return model;
    });
  };
  return watched(onAbort(signal), work);
}

module.exports = { Life, inTrace, loadWatched, onAbort, requireSignal, watched };
