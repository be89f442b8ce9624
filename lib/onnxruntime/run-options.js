'use strict';

// The options of run().

const timers = require('node:timers');
const { PRIORITIES, USUAL } = require('../scheduling.js');
const { show } = require('../show.js');
const { isObject, severityOf } = require('./session-options.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { clearInterval, setInterval } = timers;

const severity = severityOf('runOptions');

/** Milliseconds after which a program's wish to end a run is seen. */
const LOOK = 2;

const TERMINATED = 'Exiting due to terminate flag being set to true.';

/**
 * How the run is scheduled, which onnxruntime has no options for.
 * @param {any} options
 * @returns {import('../scheduling.js').Schedule}
 */
function scheduleOption({ priority, timeout }) {
  if (priority === undefined && timeout === undefined) return USUAL;
  const position = PRIORITIES.indexOf(priority);
  if (priority !== undefined && position === -1) {
    throw new TypeError(`Invalid argument: runOptions.priority must be 'high', 'normal' or 'low', found ${show(priority)}.`);
  }
  if (timeout !== undefined && !(typeof timeout === 'number' && timeout >= 0 && Number.isFinite(timeout))) {
    throw new TypeError(`Invalid argument: runOptions.timeout must be a number of milliseconds from 0, found ${show(timeout)}.`);
  }
  return { priority: priority === undefined ? undefined : position, timeout };
}

/**
 * Checks the options, and tells how to watch whether the run is to end: `terminate` may be set while it lasts, and `signal`, which
 * onnxruntime has not, is an AbortSignal.
 * @param {any} options
 * @returns {{watching?: (stop: (reason: unknown) => void) => () => void, requireWanted: () => void,
 *   schedule: import('../scheduling.js').Schedule}} requireWanted() throws where nobody wants the run any more
 */
function runOptions(options) {
  if ('logSeverityLevel' in options) severity(options.logSeverityLevel, 'logSeverityLevel');
  if ('tag' in options && typeof options.tag !== 'string') throw new TypeError('Invalid argument: runOptions.tag must be a string.');
  const { signal } = options;
  if (signal !== undefined && !(isObject(signal) && typeof signal.aborted === 'boolean')) {
    throw new TypeError('Invalid argument: runOptions.signal must be an AbortSignal.');
  }
  const schedule = scheduleOption(options);
  const requireWanted = () => {
    if (options.terminate === true) throw new Error(TERMINATED);
    signal?.throwIfAborted();
  };
  requireWanted();
  if (signal === undefined && !('terminate' in options)) return { requireWanted, schedule };
  const watching = (stop) => {
    const look = () => {
      if (options.terminate === true) stop(new Error(TERMINATED));
    };
    const timer = 'terminate' in options ? setInterval(look, LOOK).unref() : undefined;
    const aborted = () => stop(signal.reason);
    signal?.addEventListener('abort', aborted, { once: true });
    return () => {
      clearInterval(timer);
      signal?.removeEventListener('abort', aborted);
    };
  };
  return { watching, requireWanted, schedule };
}

module.exports = { runOptions };
