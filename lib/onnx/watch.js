'use strict';

// Watches runs: a caller can cancel them, or get the times of their steps.

const { performance } = require('node:perf_hooks');
const native = require('../native.js');
const { destroyWatch, giveUp, isSignal, whenAborted } = require('../cancelling.js');
const { exception, typeError } = require('../errors.js');
const { USUAL, createWatch } = require('../scheduling.js');
const { ask } = require('../settle.js');
const { show } = require('../show.js');
const { trace } = require('../trace.js');
const { stepsOf } = require('./profile.js');

/** Tells work that its caller has given up. */
class Life {
  isOver = false;
  /** Whether its turn came too late. Who waits hears of that soon, if it has not yet. */
  isLate = false;
  /** Rejects when the caller gives up or the work is overdue, if one of them can be. @type {Promise<never> | undefined} */
  stopped;
  #watch;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} watch */
  constructor(watch) {
    this.#watch = watch;
  }

  /** The work begins here and not natively. Whether it is still wanted. */
  begin() {
    this.isLate = this.isOver || !native.beginWork(this.#watch);
    return !this.isLate;
  }

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
 * @param {import('../scheduling.js').Schedule & {name?: string}} [schedule] and the name of the work, for messages; its signal is of no matter here
 * @returns {Promise<T>}
 */
function watched(watching, work, tell = undefined, schedule = USUAL) {
  const isUsual = watching === undefined && tell === undefined && schedule.priority === undefined && schedule.timeout === undefined;
  return isUsual ? work(0) : under(watching, work, tell, schedule);
}

/**
 * Does a run that belongs into the trace of the process.
 * @template T
 * @param {import('./model.js').Model} model
 * @param {import('./model.js').RunOptions} options
 * @param {(options: import('./model.js').RunOptions) => Promise<T>} work
 * @returns {Promise<T>}
 */
function inTrace(model, options, work) {
  const began = performance.now();
  const note = (steps) => trace.steps(model.label, began, stepsOf(steps), model.contextState.peak);
  // What watches it already gets the steps, too.
  if (options.watch > 0) {
    noted.set(options.watch, note);
    return work(options);
  }
  return under(undefined, (watch) => work({ ...options, watch }), note, USUAL);
}

/** By a watch: notes the steps of its run in the trace. @type {Map<number, (steps: import('../native').Step[]) => void>} */
const noted = new Map();

async function under(watching, work, tell, schedule) {
  const watch = createWatch(schedule, tell !== undefined || trace !== undefined);
  const life = new Life(watch);
  const result = work(watch, life);
  let unwatch;
  const end = () => {
    // The caller may abort before it hears of the end.
    unwatch?.();
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
    async (error) => {
      // The caller gets the reason, and not what the work makes of it.
      if (life.isLate) await life.stopped?.catch(() => {});
      end();
      throw error;
    },
  );
  if (watching === undefined && schedule.timeout === undefined) return ended;
  // The caller may have stopped waiting.
  ended.catch(() => {});
  life.stopped = new Promise((_, reject) => {
    const stop = (reason) => {
      life.end();
      reject(reason);
    };
    unwatch = watching?.((reason) => {
      giveUp(watch, reason);
      stop(reason);
    });
    if (schedule.timeout !== undefined) whenOverdue(watch, (message) => stop(exception('TimeoutError', `${schedule.name ?? 'run'}: ${message}`)));
  });
  try {
    return await Promise.race([ended, life.stopped]);
  } finally {
    unwatch?.();
  }
}

/** Work may wait here for long before the native side has it, and is overdue there. */
function whenOverdue(watch, tell) {
  ask((request) => native.awaitEnd(request, watch)).catch(({ code, message }) => {
    if (code === 'TimeoutError') tell(message);
  });
}

/**
 * Watches an AbortSignal, of any realm.
 * @param {AbortSignal | undefined} signal
 */
function onAbort(signal) {
  if (signal === undefined) return undefined;
  return (stop) => {
    const tell = () => stop(signal.reason);
    if (!signal.aborted) return whenAborted(signal, tell);
    // Between the call and the begin of the work.
    tell();
    return () => {};
  };
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
