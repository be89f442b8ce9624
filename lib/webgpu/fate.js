'use strict';

// How work ended that a device has been given. The device tells later, through error scopes, and more work on the same tensors is
// given to it meanwhile. So a tensor has the fate of what wrote it last, and a dispatch's fate depends on those of its inputs.
// Where an input turns out to have failed the dispatch has run on what was there, and its outputs are errored all the same, as
// if it had not (docs/extensions.md E3). Whoever reads waits for the fate.

const { named } = require('../errors.js');

/** @typedef {import('../native').Cause} Cause */

/** Failures lead to failures without end; a chain that has become too long goes on with its first. */
const LONGEST_CHAIN = 100;

class Fate {
  /** Once it is known, if it failed. @type {Cause | undefined} */
  failure = undefined;
  /** Until it is known: a promise of the failure, or of nothing. It is never rejected. @type {Promise<Cause | undefined> | undefined} */
  pending = undefined;

  /** @param {Cause} failure */
  static failed(failure) {
    const fate = new Fate();
    fate.failure = failure;
    return fate;
  }

  /**
   * Of work that the device may complain of, and that depended on others.
   * @param {Promise<Cause | undefined>} complaint
   * @param {Fate[]} before
   * @param {{ own(failure: Cause): Cause, inherited(failure: Cause): Cause }} name
   */
  static of(complaint, before, name) {
    const fate = new Fate();
    const unknown = before.filter(({ pending }) => pending !== undefined);
    fate.pending = (async () => {
      const own = await complaint;
      let failure = own && name.own(own);
      for (const other of unknown) {
        const theirs = await other.end();
        if (failure === undefined && theirs !== undefined) failure = name.inherited(theirs);
      }
      fate.failure = failure;
      fate.pending = undefined;
      return failure;
    })();
    return fate;
  }

  /** @returns {Promise<Cause | undefined>} */
  async end() {
    return this.pending === undefined ? this.failure : this.pending;
  }
}

function chain(failure) {
  const all = [];
  for (let one = failure; one !== undefined; one = one.cause) all.push(one);
  return all;
}

/**
 * What a failure led to.
 * @param {string} operator
 * @param {string} label
 * @param {string} what went wrong
 * @param {Cause} cause
 * @returns {Cause}
 */
function inherited(operator, label, what, cause) {
  const all = chain(cause);
  const first = all[all.length - 1];
  return { code: 'OperationError', message: `${named(operator, label)}: ${what}: ${first.message}`, cause: all.length < LONGEST_CHAIN ? cause : first };
}

/**
 * A failure of an operation itself.
 * @param {string} operator
 * @param {string} label
 * @param {Cause} failure
 * @returns {Cause}
 */
function failed(operator, label, { message, cause }) {
  return { code: 'OperationError', message: `${named(operator, label)}: ${message}`, cause };
}

module.exports = { Fate, failed, inherited };
