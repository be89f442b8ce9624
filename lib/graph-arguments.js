'use strict';

// `(graph, inputs, outputs, options)`: the arguments of methods that run or record a graph.

const { signalMember } = require('./cancelling.js');
const { conversionError } = require('./errors.js');
const { toGraph } = require('./graph.js');
const { requireArguments } = require('./interface.js');
const { toTensor } = require('./tensor.js');
const { argument, dictionary, record, usvString } = require('./webidl.js');

/** The extension `{label}` of the methods that only enqueue (docs/extensions.md E1). */
const labelMember = { name: 'label', convert: usvString, absent: '' };
const labelled = dictionary([labelMember]);

/** Of methods whose work can be cancelled (docs/extensions.md C19). */
const cancellable = dictionary([labelMember, signalMember]);

/** MLNamedTensors */
const namedTensors = record(toTensor);

/**
 * Converts them in the order of WebIDL.
 * @param {string} operator
 * @param {ArrayLike<unknown>} given
 * @param {(value: unknown) => any} named converts a record of tensors or of memory
 * @param {(value: unknown) => any} [dictionary] converts the options
 */
function graphArguments(operator, given, named, dictionary = labelled) {
  let label = '';
  let signal;
  try {
    requireArguments(given, 3);
    const graph = argument('graph', given[0], toGraph);
    const inputs = argument('inputs', given[1], named);
    const outputs = argument('outputs', given[2], named);
    if (given[3] !== undefined) ({ label, signal } = argument('options', given[3], dictionary));
    return { graph, inputs, outputs, label, signal };
  } catch (error) {
    throw conversionError(error, operator, label);
  }
}

module.exports = { cancellable, graphArguments, labelled, namedTensors };
