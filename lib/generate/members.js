'use strict';

// The names of options. Nobody else has them, so one that is not known is a mistake.

const { typeError } = require('../errors.js');
const { quote } = require('../show.js');

/**
 * Requires that an object has no other members than some.
 * @param {string} label of the model
 * @param {object} options
 * @param {Iterable<string>} known
 * @param {string} [place] of the object in the options of generate()
 * @param {string} [operator]
 */
function requireMembers(label, options, known, place = '', operator = 'generate') {
  const allowed = new Set(known);
  const unknown = Object.keys(options).find((name) => !allowed.has(name));
  if (unknown !== undefined) throw typeError(operator, label, `options: ${place}found ${quote(unknown)}, allowed ${[...allowed].sort().join(', ')}`);
}

module.exports = { requireMembers };
