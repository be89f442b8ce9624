'use strict';

// The names of the original proposal, as thin classes (docs/extensions.md D6).

const { requireBlocking, requireImmediate } = require('./blocking.js');
const { compute, computeSync } = require('./compute.js');
const { contextArgument } = require('./context.js');
const { expose, receiverOf } = require('./interface.js');

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
    const context = execution(this, 'compute');
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
      return compute(awaited(this, 'compute'), arguments);
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

const execution = receiverOf('MLExecution', contextOfExecution);
const awaited = receiverOf('MLAwaitedExecution', contextOfAwaited);

module.exports = { MLAwaitedExecution, MLExecution };
