'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraphbuilder

const native = require('./native.js');
const { bufferSource, validateBuffer, viewable } = require('./buffers.js');
const { compile, keep } = require('./building.js');
const { signalMember } = require('./cancelling.js');
const { liveContextArgument } = require('./context.js');
const { bufferFor, dataType, operandDescriptor } = require('./descriptor.js');
const { traced } = require('./diagnostics.js');
const { cacheMember } = require('./disk-cache.js');
const { CONTEXT_LOST, conversionError, invalidState, nativeError, typeError } = require('./errors.js');
const { expose, receiverOf, requireArguments } = require('./interface.js');
const { builderOf, createOperand, idOf } = require('./operand.js');
const { defineOperators, foreignOperand, operand } = require('./operators.js');
const { quote } = require('./show.js');
const { isDestroyed, toTensor } = require('./tensor.js');
const { argument, dictionary, isObject, numeric, record, usvString } = require('./webidl.js');

const collected = new FinalizationRegistry((handle) => native.destroyBuilder(handle));

/** MLNamedOperands */
const namedOperands = record(operand);

/** The extensions `{label}` (docs/extensions.md E1), `{signal}` (C19) and `{cache}` (C23). */
const buildOptions = dictionary([cacheMember, { name: 'label', convert: usvString, absent: '' }, signalMember]);

let stateOf;

class MLGraphBuilder {
  #state;

  constructor(context) {
    const state = liveContextArgument('MLGraphBuilder', arguments, context);
    const handle = callNative(native.createBuilder, state.handle, this);
    this.#state = { handle, context: state, hasBuilt: false, destroyed: false };
    collected.register(this, handle);
  }

  input(name, descriptor) {
    const builder = self(this, 'input');
    try {
      requireArguments(arguments, 2);
      name = argument('name', name, usvString);
      descriptor = argument('descriptor', descriptor, operandDescriptor);
    } catch (error) {
      throw conversionError(error, 'input');
    }
    requireCanBuild(builder, 'input', '');
    callNative(native.input, builder.handle, name, descriptor.dataType, descriptor.shape);
    return createOperand(builder);
  }

  // constant(tensor) with one argument; with two, an object (or nothing) is a descriptor and comes with a buffer, and
  // everything else is a data type and comes with a number.
  constant(first, second = undefined) {
    const builder = self(this, 'constant');
    try {
      requireArguments(arguments, 1);
    } catch (error) {
      throw conversionError(error, 'constant');
    }
    if (arguments.length === 1) return constantTensor(builder, first);
    if (isObject(first) || first === undefined || first === null) return constantBuffer(builder, first, second);
    return constantNumber(builder, first, second);
  }

  build(outputs, options = undefined) {
    try {
      const builder = self(this, 'build');
      let label = '';
      let signal;
      let cache;
      try {
        requireArguments(arguments, 1);
        outputs = argument('outputs', outputs, namedOperands);
        if (options !== undefined) ({ label, signal, cache } = argument('options', options, buildOptions));
      } catch (error) {
        throw conversionError(error, 'build', label);
      }
      requireCanBuild(builder, 'build', label);
      const { names, values } = outputs;
      if (names.length === 0) throw typeError('build', label, "outputs: found no name, allowed at least one");
      const ids = values.map((value, i) => {
        const path = `outputs: ${quote(names[i])}`;
        if (names[i] === '') throw typeError('build', label, `${path}: found an empty name, allowed any other`);
        if (builderOf(value) !== builder) throw foreignOperand('build', label, path);
        return idOf(value);
      });
      signal?.throwIfAborted();
      return traced('build', () => ({ operator: 'build', label, device: builder.context.device }), () => {
        const kept = keep(builder.handle, cache ?? builder.context.cache, names, ids, label);
        return compile(builder, { names, ids, label, signal, kept });
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** An extension: releases the constants of a builder that will not be built (docs/extensions.md C10). */
  destroy() {
    const builder = self(this, 'destroy');
    if (builder.destroyed) return;
    builder.destroyed = true;
    native.destroyBuilder(builder.handle);
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

const self = receiverOf('MLGraphBuilder', stateOf);
defineOperators(MLGraphBuilder.prototype, self, requireCanBuild);
expose(MLGraphBuilder, stateOf);

/** "If this can not build, then throw an InvalidStateError". */
function requireCanBuild(builder, operator, label) {
  if (builder.hasBuilt || builder.destroyed || builder.context.lost) {
    throw invalidState(operator, label, whyNot(builder));
  }
}

function whyNot(builder) {
  if (builder.hasBuilt) return 'build() was called on the MLGraphBuilder; a builder makes one graph';
  return builder.destroyed ? 'the MLGraphBuilder was destroyed' : CONTEXT_LOST;
}

function callNative(method, ...values) {
  try {
    return Reflect.apply(method, undefined, values);
  } catch (error) {
    throw nativeError(error);
  }
}

/** constant(descriptor, buffer) */
function constantBuffer(builder, descriptor, buffer) {
  try {
    descriptor = argument('descriptor', descriptor, operandDescriptor);
    argument('buffer', buffer, bufferSource);
  } catch (error) {
    throw conversionError(error, 'constant');
  }
  requireCanBuild(builder, 'constant', '');
  const { dataType, shape } = descriptor;
  const problem = validateBuffer(buffer, bufferFor(dataType, shape));
  if (problem !== undefined) throw typeError('constant', '', `buffer: ${problem}`);
  callNative(native.constantBytes, builder.handle, dataType, shape, viewable(buffer));
  return createOperand(builder);
}

/** constant(dataType, value) */
function constantNumber(builder, type, value) {
  try {
    type = argument('dataType', type, dataType);
    value = argument('value', value, numeric);
  } catch (error) {
    throw conversionError(error, 'constant');
  }
  requireCanBuild(builder, 'constant', '');
  callNative(native.constantNumber, builder.handle, type, value);
  return createOperand(builder);
}

/** constant(tensor) */
function constantTensor(builder, value) {
  let tensor;
  try {
    tensor = argument('tensor', value, toTensor);
  } catch (error) {
    throw conversionError(error, 'constant');
  }
  if (tensor.context !== builder.context) {
    throw typeError('constant', '', "tensor: found an MLTensor of another MLContext, allowed one of the builder's context");
  }
  if (isDestroyed(tensor)) {
    throw typeError('constant', '', "tensor: found an MLTensor that was destroyed or whose MLContext was lost, allowed one that still exists");
  }
  if (!tensor.constant) {
    throw typeError('constant', '', "tensor: found an MLTensor that is not constant, allowed one made by createConstantTensor()");
  }
  requireCanBuild(builder, 'constant', '');
  callNative(native.constantTensor, builder.handle, tensor.handle);
  return createOperand(builder);
}

module.exports = { MLGraphBuilder };
