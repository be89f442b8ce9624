'use strict';

// WebIDL's rules for every interface (https://webidl.spec.whatwg.org/#js-interfaces): constructors that script may not call, receivers, the number
// of arguments, and the attributes of properties.
//
// A private field of the class proves the identity of an object, never its prototype chain (docs/extensions.md A3).

const { Mismatch, TooFewArguments, at, conversionError } = require('./errors.js');
const { nameInstances, withArticle } = require('./show.js');

/** What only this module can give to a constructor. */
const construct = Symbol('construct');

function illegalUnless(key) {
  if (key !== construct) throw new TypeError('Illegal constructor');
}

/**
 * A converter for an interface type: from an object of the interface to its state.
 * @template S
 * @param {string} name
 * @param {(value: unknown) => S | undefined} stateOf
 * @returns {(value: unknown) => S}
 */
function interfaceType(name, stateOf) {
  const allowed = withArticle(name);
  return (value) => {
    const state = stateOf(value);
    if (state === undefined) throw new Mismatch(value, allowed);
    return state;
  };
}

/**
 * The state of a method's receiver.
 * @template S
 * @param {unknown} self
 * @param {(value: unknown) => S | undefined} stateOf
 * @param {string} name
 * @returns {S}
 */
function receiver(self, stateOf, name) {
  const state = stateOf(self);
  if (state === undefined) throw at("'this'", new Mismatch(self, withArticle(name)));
  return state;
}

/**
 * What the members of an interface call for the state of their receiver.
 * @template S
 * @param {string} name of the interface
 * @param {(value: unknown) => S | undefined} stateOf
 * @returns {(value: unknown, member: string) => S}
 */
function receiverOf(name, stateOf) {
  return (value, member) => {
    try {
      return receiver(value, stateOf, name);
    } catch (error) {
      throw conversionError(error, `${name}.${member}`);
    }
  };
}

/** WebIDL's overload resolution, step 4: too few arguments. */
function requireArguments(given, required) {
  if (given.length < required) throw new TooFewArguments(given.length, required);
}

/**
 * Gives an interface's class the property attributes of WebIDL, and the extensions that all interfaces share.
 * @param {Function} Interface
 * @param {(value: unknown) => object | undefined} stateOf
 */
function expose(Interface, stateOf) {
  const { name, prototype } = Interface;
  for (const [key, property] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (key !== 'constructor') Object.defineProperty(prototype, key, { ...property, enumerable: true });
  }
  Object.defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
  // docs/extensions.md C12: an object that can be destroyed can be declared with `using`, where the runtime knows that.
  if ('destroy' in prototype && Symbol.dispose !== undefined) {
    const dispose = { [Symbol.dispose]() { this.destroy(); } }[Symbol.dispose];
    Object.defineProperty(prototype, Symbol.dispose, { value: dispose, writable: true, configurable: true });
  }
  nameInstances(name, (value) => stateOf(value) !== undefined);
}

module.exports = { construct, expose, illegalUnless, interfaceType, receiver, receiverOf, requireArguments };
