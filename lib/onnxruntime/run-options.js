'use strict';

// The options of run().

const { isObject, severityOf } = require('./session-options.js');

const severity = severityOf('runOptions');

/**
 * @param {object} options
 * @returns {{terminated: () => boolean, signal?: AbortSignal}} whether the run is to end; a program may say so while it lasts
 */
function runOptions(options) {
  if ('logSeverityLevel' in options) severity(options.logSeverityLevel, 'logSeverityLevel');
  if ('tag' in options && typeof options.tag !== 'string') throw new TypeError('Invalid argument: runOptions.tag must be a string.');
  const { signal } = options;
  if (signal !== undefined && !(isObject(signal) && typeof signal.aborted === 'boolean')) {
    throw new TypeError('Invalid argument: runOptions.signal must be an AbortSignal.');
  }
  return { terminated: () => options.terminate === true, signal };
}

module.exports = { runOptions };
