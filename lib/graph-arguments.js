'use strict';

// `(graph, inputs, outputs, options)`: the arguments of methods that run or record a graph.

const { conversionError } = require('./errors.js');
const { toGraph } = require('./graph.js');
const { requireArguments } = require('./interface.js');
const { toTensor } = require('./tensor.js');
const { argument, dictionary, record, usvString } = require('./webidl.js');

/** The extension `{label}` of the methods that only enqueue (docs/extensions.md E1). */
const labelled = dictionary([{ name: 'label', convert: usvString, absent: '' }]);

/** MLNamedTensors */
const namedTensors = record(toTensor);

/**
 * Converts them in the order of WebIDL.
 * @param {string} operator
 * @param {ArrayLike<unknown>} given
 * @param {(value: unknown) => any} named converts a record of tensors or of memory
 */
function graphArguments(operator, given, named) {
  let label = '';
  try {
    requireArguments(given, 3);
    const graph = argument('graph', given[0], toGraph);
    const inputs = argument('inputs', given[1], named);
    const outputs = argument('outputs', given[2], named);
    if (given[3] !== undefined) ({ label } = argument('options', given[3], labelled));
    return { graph, inputs, outputs, label };
  } catch (error) {
    throw conversionError(error, operator, label);
  }
}

module.exports = { graphArguments, labelled, namedTensors };
