'use strict';

// Watches runs: a caller can cancel them, or get the times of their steps.

const { performance } = require('node:perf_hooks');
const native = require('../native.js');
const { typeError } = require('../errors.js');
const { show } = require('../show.js');
const { trace } = require('../trace.js');
const { stepsOf } = require('./profile.js');

/** Tells work that its caller has given up. */
class Life {
  isOver = false;
  /** @type {(() => void) | undefined} */
  #tell;

  /** @param {() => void} tell is called once */
  whenOver(tell) {
    this.#tell = tell;
  }

  end() {
    this.isOver = true;
    this.#tell?.();
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
    native.destroyWatch(watch);
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
      native.giveUp(watch);
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
  return (stop) => {
    const aborted = () => stop(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    return () => signal.removeEventListener('abort', aborted);
  };
}

/**
 * @param {string} operator
 * @param {string} label
 * @param {any} signal
 */
function requireSignal(operator, label, signal) {
  if (signal === undefined || typeof signal?.aborted === 'boolean') return;
  throw typeError(operator, label, `options: signal: found ${show(signal)}, allowed an AbortSignal`);
}

/**
 * A model that is being loaded. If the signal is aborted, this rejects at once, and the model is destroyed when it is there.
 * @template {{destroy(): void}} T
 * @param {AbortSignal | undefined} signal
 * @param {Promise<T>} loading
 */
async function untilAborted(signal, loading) {
  if (signal === undefined) return await loading;
  let isAborted = false;
  let unwatch;
  const aborted = new Promise((_, reject) => {
    unwatch = onAbort(signal)((reason) => {
      isAborted = true;
      reject(reason);
    });
  });
  loading.then(
    (model) => isAborted && model.destroy(),
    () => {},
  );
  try {
    return await Promise.race([loading, aborted]);
  } finally {
    unwatch();
  }
}

module.exports = { inTrace, onAbort, requireSignal, untilAborted, watched };
