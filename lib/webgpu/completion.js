'use strict';

// How work that a device was given has ended. The device reports errors later, through error scopes, and gets more work on the same tensors
// meanwhile. So a tensor has the completion of the work that wrote it last, and a dispatch's completion depends on those of its inputs. If an
// input has failed, the dispatch has run on what was there, and its outputs are errored as if it had not run (docs/extensions.md E3). A read
// waits for the completion.

const { named } = require('../errors.js');

/** @typedef {import('../native').Cause} Cause */

/** Failures lead to failures without end. A chain of this length is cut: the first failure becomes the cause. */
const LONGEST_CHAIN = 100;

class Completion {
  /** Once it is known, if it failed. @type {Cause | undefined} */
  failure = undefined;
  /** Until it is known: a promise of the failure, or of nothing. It is never rejected. @type {Promise<Cause | undefined> | undefined} */
  pending = undefined;

  /** @param {Cause} failure */
  static failed(failure) {
    const completion = new Completion();
    completion.failure = failure;
    return completion;
  }

  /**
   * Of work that the device may complain of, and that depended on others.
   * @param {Promise<Cause | undefined>} complaint
   * @param {Completion[]} before
   * @param {{ own(failure: Cause): Cause, inherited(failure: Cause): Cause }} name
   */
  static of(complaint, before, name) {
    const completion = new Completion();
    const unknown = before.filter(({ pending }) => pending !== undefined);
    completion.pending = (async () => {
      const own = await complaint;
      let failure = own && name.own(own);
      for (const other of unknown) {
        const theirs = await other.end();
        if (failure === undefined && theirs !== undefined) failure = name.inherited(theirs);
      }
      completion.failure = failure;
      completion.pending = undefined;
      return failure;
    })();
    return completion;
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

module.exports = { Completion, failed, inherited };
