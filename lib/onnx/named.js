'use strict';

// Objects with a value for each name of a file.

/**
 * An object without a property that it does not get, so that '__proto__' is a name like others. Object.create(null) would be a hash table
 * for V8, which is slower to make and to look into.
 * @type {new () => Record<string, any>}
 */
const Named = /** @type {any} */ (function Named() {});
Named.prototype = Object.create(null);

/**
 * Defines a property of a plain object, as Object.fromEntries() does: '__proto__', and what all objects inherit, are names like others.
 * @param {object} object
 * @param {string} name
 * @param {unknown} value
 */
function put(object, name, value) {
  if (name in object) Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  else object[name] = value;
}

module.exports = { Named, put };
