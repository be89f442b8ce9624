'use strict';

// Values by names that a file gives.

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

module.exports = { put };
