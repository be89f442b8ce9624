'use strict';

// The regular expressions of a constraint, which the native part has found, translated for it.

const { setImmediate } = require('node:timers/promises');
const { Refusal, translate } = require('./translate.js');

/** Characters that the strings of JSON do not have: those that only `\\u` could write. @type {import('./sets.js').Ranges} */
const UNWRITABLE = [[0, 7], [11, 11], [14, 31], [127, 127]];

/**
 * How the texts match that an expression is for. Keys are also compared with names that a schema has, of any characters.
 * @type {Record<string, { isWhole: boolean, excluded: import('./sets.js').Ranges }>}
 */
const USES = {
  text: { isWhole: true, excluded: [] },
  strings: { isWhole: false, excluded: UNWRITABLE },
  keys: { isWhole: false, excluded: [] },
};

/** Milliseconds after which others have their turn. */
const TURN = 3;
/** Classes of which V8 is asked for the characters, which takes tens of milliseconds. */
const MOST_QUESTIONS = 64;
/** Characters of all translations together. */
const LONGEST = 1 << 22;

/**
 * @param {{ place: string, usage: string, source: string }[]} patterns
 * @param {string} flags
 * @returns {Promise<string[]>}
 */
async function translated(patterns, flags) {
  const found = [];
  const questions = { left: MOST_QUESTIONS };
  let [since, length] = [performance.now(), 0];
  for (const { place, usage, source } of patterns) {
    try {
      found.push(translate(source, flags, { ...USES[usage], questions }));
    } catch (error) {
      throw error instanceof Refusal ? new TypeError(`${place}${error.message}`) : error;
    }
    length += found.at(-1).length;
    if (length > LONGEST) throw new TypeError(`${place}the regular expressions are too large when they are compiled`);
    if (performance.now() - since > TURN) {
      await setImmediate();
      since = performance.now();
    }
  }
  return found;
}

module.exports = { translated };
