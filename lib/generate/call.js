'use strict';

// What a call of generate() has until it ends: its models, its place in the queue, and its sequences on the native side.

const native = require('../native.js');

/** Ends calls whose iterators script has forgotten. */
const forgotten = new FinalizationRegistry((call) => call.end());

/** Nothing in it leads to options: a hook, or a listener of the signal, may lead to the iterator, which could then never be collected. */
class Call {
  /** How many tokens of each prompt were known. @type {number[]} */
  known = [];
  /** @type {(() => void)[]} */
  #ends = [];

  /**
   * Ends with its iterator, where nobody ends it before.
   * @param {AsyncGenerator} iterator
   */
  endWith(iterator) {
    forgotten.register(iterator, this, this);
  }

  /**
   * Has models stay.
   * @param {(import('../onnx/model.js').Model | undefined)[]} models
   * @param {(() => void) | undefined} leave gives the place in the queue back
   */
  enter(models, leave) {
    if (leave !== undefined) this.#ends.push(leave);
    for (const model of models) {
      if (model === undefined) continue;
      model.enter();
      this.#ends.push(() => model.leave());
    }
  }

  /** Has sequences on the native side. What is under way then ends by itself. */
  open(session) {
    this.#ends.push(() => native.destroySession(session));
  }

  /** Gives everything back, once. */
  end() {
    forgotten.unregister(this);
    for (const end of this.#ends.splice(0).reverse()) end();
  }
}

module.exports = { Call };
