'use strict';

// Recording dispatches, to be submitted later and more than once (docs/extensions.md D5).

const { bindTensors } = require('./bindings.js');
const { createCommandBuffer } = require('./command-buffer.js');
const { liveContextArgument } = require('./context.js');
const { CONTEXT_LOST, conversionError, invalidState, typeError } = require('./errors.js');
const { toGraph } = require('./graph.js');
const { graphArguments, labelled, namedTensors } = require('./graph-arguments.js');
const { expose, receiverOf, requireArguments } = require('./interface.js');
const { argument } = require('./webidl.js');

let stateOf;

class MLCommandEncoder {
  #state;

  constructor(context) {
    this.#state = { context: liveContextArgument('MLCommandEncoder', arguments, context), finished: false, graphs: new Set(), tensors: new Set(), dispatches: [] };
  }

  initializeGraph(graph) {
    const encoder = self(this, 'initializeGraph');
    try {
      requireArguments(arguments, 1);
      graph = argument('graph', graph, toGraph);
    } catch (error) {
      throw conversionError(error, 'initializeGraph');
    }
    requireRecording(encoder, 'initializeGraph', '');
    requireGraph(encoder, 'initializeGraph', '', graph);
    encoder.graphs.add(graph);
  }

  dispatch(_graph, _inputs, _outputs, _options = undefined) {
    const encoder = self(this, 'dispatch');
    const { graph, inputs, outputs, label } = graphArguments('dispatch', arguments, namedTensors);
    requireRecording(encoder, 'dispatch', label);
    requireGraph(encoder, 'dispatch', label, graph);
    if (!encoder.graphs.has(graph)) {
      throw invalidState('dispatch', label, "graph: found an MLGraph that was not initialized here, allowed one that was given to initializeGraph()");
    }
    const handles = bindTensors('dispatch', label, encoder.context, graph, inputs, outputs);
    inputs.values.concat(outputs.values).forEach((tensor) => encoder.tensors.add(tensor));
    encoder.dispatches.push({ graph, handles, label });
  }

  finish(options = undefined) {
    const encoder = self(this, 'finish');
    let label = '';
    try {
      if (options !== undefined) ({ label } = argument('options', options, labelled));
    } catch (error) {
      throw conversionError(error, 'finish', label);
    }
    requireRecording(encoder, 'finish', label);
    requireAllThere(encoder, label);
    const { context, dispatches } = encoder;
    const buffer = createCommandBuffer(context, label, { graphs: elements(encoder.graphs), tensors: elements(encoder.tensors), dispatches });
    encoder.finished = true;
    encoder.graphs = encoder.tensors = encoder.dispatches = undefined;
    return buffer;
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(MLCommandEncoder, stateOf);
const self = receiverOf('MLCommandEncoder', stateOf);

function requireRecording(encoder, operator, label) {
  if (encoder.finished) throw invalidState(operator, label, 'finish() was called on the MLCommandEncoder; an encoder makes one MLCommandBuffer');
  if (encoder.context.lost) throw invalidState(operator, label, CONTEXT_LOST);
}

function requireGraph(encoder, operator, label, graph) {
  if (graph.context !== encoder.context) {
    throw typeError(operator, label, "graph: found an MLGraph of another MLContext, allowed one of the encoder's context");
  }
  if (graph.destroyed) throw invalidState(operator, label, "graph: found an MLGraph that was destroyed, allowed one that still exists");
}

/** What was destroyed since it was recorded can be recorded no more. */
function requireAllThere({ graphs, tensors }, label) {
  if (elements(graphs).some(({ destroyed }) => destroyed)) throw invalidState('finish', label, 'an MLGraph of the recording was destroyed');
  if (elements(tensors).some(({ destroyed }) => destroyed)) throw invalidState('finish', label, 'an MLTensor of the recording was destroyed');
}

function elements(set) {
  const list = [];
  set.forEach((element) => list.push(element));
  return list;
}

module.exports = { MLCommandEncoder };
