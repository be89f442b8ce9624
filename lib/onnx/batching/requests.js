'use strict';

// Requests that wait: which goes first, which may be joined, and how one ends whose caller has given up.

const { failed } = require('../../diagnostics.js');
const { exception } = require('../../errors.js');
const { usesDevice } = require('../places.js');

/** @typedef {import('../given.js').Given} Given */
/** @typedef {import('../model.js').RunOptions} RunOptions */

/**
 * `passed` counts the more urgent ones that went before it; the length is 0 where there is none.
 * @typedef {{given: Given, options: RunOptions, label: string, rows: number, length: number, began: number, priority: number, passed: number, isOver: boolean,
 *   resolve: (results: any) => void, reject: (reason: unknown) => void}} Waiting
 */

/** So many may go before a less urgent request. */
const PASSED = 8;

/** Whether a request goes before another one. */
function isBefore(one, other) {
  if (one.priority === other.priority) return one.began < other.began;
  const isMoreUrgent = one.priority < other.priority;
  return (isMoreUrgent ? other : one).passed < PASSED === isMoreUrgent;
}

/** Whether a request is still wanted when its turn comes; if it is, it is not overdue any more. */
function begins(waiting) {
  const { life } = waiting.options;
  if (life === undefined || life.begin()) return true;
  leave(waiting);
  return false;
}

/** Ends a request whose caller has given up, which hears of that by its life. */
function leave({ options, label, reject }) {
  options.life?.stopped?.catch((reason) => failed({ operator: options.operator ?? 'run', label }, reason));
  reject(exception('AbortError', 'the caller has given up'));
}

/** Whether a run may be one of several: what it is given and gives is in memory, and it has no limit or seed of its own. */
function canBeJoined({ hasUnread, hasTensors }, { seed, maxBytes, places, isAlone }) {
  return !hasUnread && !hasTensors && !isAlone && seed === undefined && maxBytes === undefined && !usesDevice(places);
}

/** The outputs that one of them wants; nothing for all. */
function wantedOf(group) {
  if (group.some(({ options }) => options.wanted === undefined)) return undefined;
  return new Set(group.flatMap(({ options }) => [...options.wanted]));
}

/** What tells when the callers of all requests have given up, if they can. @param {Waiting[]} group */
function whenAllAreOver(group) {
  if (group.some(({ options }) => options.life === undefined)) return undefined;
  return (stop) => {
    let left = group.length;
    const end = () => {
      if (--left === 0) stop(exception('AbortError', 'nobody waits for the run any more'));
    };
    for (const { options } of group) options.life.whenOver(end);
    // Lives end with their requests.
    return () => {};
  };
}

module.exports = { isBefore, begins, leave, canBeJoined, wantedOf, whenAllAreOver };
