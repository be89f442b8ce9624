'use strict';

// The names of the original proposal, as thin classes (docs/extensions.md D6).

const { requireBlocking, requireImmediate } = require('./blocking.js');
const { compute, computeSync } = require('./compute.js');
const { toContext } = require('./context.js');
const { conversionError } = require('./errors.js');
const { expose, receiver, requireArguments } = require('./interface.js');
const { argument } = require('./webidl.js');

let contextOfExecution, contextOfAwaited;

/** Synchronous: fills the given outputs in place. */
class MLExecution {
  #context;

  constructor(context) {
    const state = contextArgument('MLExecution', arguments, context);
    requireImmediate('MLExecution', state);
    this.#context = state;
  }

  compute(_graph, _inputs, _outputs) {
    const context = self(this, contextOfExecution, 'MLExecution');
    requireBlocking('MLExecution.compute', context);
    return computeSync('MLExecution.compute', context, arguments);
  }

  static {
    contextOfExecution = (value) => (typeof value === 'object' && value !== null && #context in value ? value.#context : undefined);
  }
}

/** `context.compute()` by another name. */
class MLAwaitedExecution {
  #context;

  constructor(context) {
    this.#context = contextArgument('MLAwaitedExecution', arguments, context);
  }

  compute(_graph, _inputs, _outputs) {
    try {
      return compute(self(this, contextOfAwaited, 'MLAwaitedExecution'), arguments);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  static {
    contextOfAwaited = (value) => (typeof value === 'object' && value !== null && #context in value ? value.#context : undefined);
  }
}

expose(MLExecution, contextOfExecution);
expose(MLAwaitedExecution, contextOfAwaited);

function contextArgument(name, given, context) {
  try {
    requireArguments(given, 1);
    return argument('context', context, toContext);
  } catch (error) {
    throw conversionError(error, name);
  }
}

function self(value, contextOf, name) {
  try {
    return receiver(value, contextOf, name);
  } catch (error) {
    throw conversionError(error, `${name}.compute`);
  }
}

module.exports = { MLAwaitedExecution, MLExecution };
