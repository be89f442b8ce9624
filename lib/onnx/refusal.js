'use strict';

// The error for a model with nodes that cannot be run.

const { exception } = require('../errors.js');
const { escapeText, quote } = require('../show.js');

/** All nodes that cannot be mapped, in the message and as `nodes`. */
function refusal(operator, nodes, label) {
  const lines = nodes.map(
    ({ name, operator: type, domain, version, reason }) =>
      `\n  node ${quote(name)}: ${escapeText(type)} of ${escapeText(domain)} version ${version}: ${escapeText(reason)}`,
  );
  const count = nodes.length === 1 ? 'one of the nodes' : `${nodes.length} of the nodes`;
  const prefix = label ? `${operator} [${label}]` : operator;
  const error = exception('NotSupportedError', `${prefix}: ${count} of the model cannot be run:${lines.join('')}`);
  Object.defineProperty(error, 'nodes', { value: nodes, enumerable: true });
  return error;
}

module.exports = { refusal };
