'use strict';

// `(graph, inputs, outputs, options)`: the arguments of methods that run or record a graph.

const { signalMember } = require('./cancelling.js');
const { conversionError } = require('./errors.js');
const { toGraph } = require('./graph.js');
const { requireArguments } = require('./interface.js');
const { USUAL, priorityMember, timeoutMember } = require('./scheduling.js');
const { toTensor } = require('./tensor.js');
const { argument, dictionary, record, usvString } = require('./webidl.js');

/** The extension `{label}` of the methods that only enqueue (docs/extensions.md E1). */
const labelMember = { name: 'label', convert: usvString, absent: '' };
const labelled = dictionary([labelMember]);

/** Of methods that run graphs (docs/extensions.md C19, C20). */
const runOptions = dictionary([labelMember, priorityMember, signalMember, timeoutMember]);

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
  let schedule = USUAL;
  try {
    requireArguments(given, 3);
    const graph = argument('graph', given[0], toGraph);
    const inputs = argument('inputs', given[1], named);
    const outputs = argument('outputs', given[2], named);
    if (given[3] !== undefined) ({ label, ...schedule } = argument('options', given[3], dictionary));
    return { graph, inputs, outputs, label, schedule };
  } catch (error) {
    throw conversionError(error, operator, label);
  }
}

module.exports = { graphArguments, labelled, namedTensors, runOptions };
