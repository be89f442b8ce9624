'use strict';

// Makes the exceptions that script sees. All are made here, so they belong to the caller's realm.

const { reasonOf } = require('./reasons.js');
const { escapeText, show } = require('./show.js');

/** @typedef {import('./native').Cause} Cause */

/**
 * A value is not what its place allows. Conversions throw it without knowing where they are; what encloses them (a
 * sequence, a dictionary, an argument) adds its part of the path, and the method makes it a TypeError.
 */
class Mismatch {
  /**
   * @param {any} found the value
   * @param {any} allowed what would have been right, with its article
   */
  constructor(found, allowed) {
    this.found = found;
    this.allowed = allowed;
    this.path = '';
  }

  toString() {
    return `${this.path}found ${show(this.found)}, allowed ${this.allowed}`;
  }
}

/** A mismatch of the call itself and not of one of its values. */
class TooFewArguments extends Mismatch {
  toString() {
    return `found ${this.found} argument${this.found === 1 ? '' : 's'}, required ${this.allowed === 1 ? 'is' : 'are'} ${this.allowed}`;
  }
}

/** What passes a place on its way out: a mismatch learns the place, everything else is the user's own exception. */
function at(place, error) {
  if (error instanceof Mismatch) error.path = `${place}: ${error.path}`;
  return error;
}

/** `conv2d [first]`; the label as a person can safely read it. */
function named(operator, label) {
  return label ? `${operator} [${escapeText(label)}]` : operator;
}

function typeError(operator, label, detail) {
  return new TypeError(`${named(operator, label)}: ${detail}`);
}

function invalidState(operator, label, detail) {
  return exception('InvalidStateError', `${named(operator, label)}: ${detail}`);
}

/** The exception for what a conversion threw: ours get a message, the user's own stay what they are. */
function conversionError(error, operator, label) {
  if (!(error instanceof Mismatch)) return error;
  return typeError(operator, label, String(error));
}

/**
 * @param {string} name of the exception, as the method steps give it
 * @param {string} message
 * @param {Cause} [cause] what the native side says was the reason
 */
function exception(name, message, cause) {
  let error;
  switch (name) {
    case 'TypeError':
      error = new TypeError(message);
      break;
    case 'RangeError':
      error = new RangeError(message);
      break;
    default:
      error = new DOMException(message, name);
  }
  if (cause) {
    const value = nativeError(cause);
    Object.defineProperty(error, 'cause', { value, writable: true, enumerable: false, configurable: true });
  }
  return error;
}

/**
 * A native function threw: its `code` is the exception's name and its message is complete. What script has given up it gets back.
 * @param {Cause} error
 */
function nativeError({ code, message, cause, reason, given }) {
  const known = given ?? (reason === undefined ? undefined : reasonOf(reason));
  return known === undefined ? exception(code, message, cause) : known.value;
}

/** Why an operation of a context, or of what belongs to it, is refused. */
const CONTEXT_LOST = 'the MLContext was destroyed or lost';

module.exports = { CONTEXT_LOST, Mismatch, TooFewArguments, at, conversionError, exception, invalidState, named, nativeError, typeError };
