'use strict';

// require('webnn-node/register'): defines navigator.ml and the interface objects for browser code (docs/extensions.md A2). It defines nothing else:
// `window`, `document`, `self` or `location` would make libraries take Node for a browser.

const { availableParallelism } = require('node:os');
const webnn = require('./index.js');

const { ml, ...interfaces } = webnn;

/** As WebIDL defines interface objects on the global. */
function defineInterface(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/** As WebIDL defines a read-only attribute. */
function defineAttribute(target, name, value) {
  const { get } = Object.getOwnPropertyDescriptor({ get [name]() { return value(); } }, name);
  Object.defineProperty(target, name, { get, set: undefined, enumerable: true, configurable: true });
}

/** Node 20 has no navigator. */
function makeNavigator() {
  class Navigator {}
  Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: 'Navigator', configurable: true });
  defineAttribute(Navigator.prototype, 'hardwareConcurrency', availableParallelism);
  defineAttribute(Navigator.prototype, 'userAgent', () => `Node.js/${process.versions.node.split('.')[0]}`);
  return new Navigator();
}

/** Attributes are on prototypes, unless the navigator is an object literal of somebody else. */
function holderOfAttributes(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  return prototype === Object.prototype || prototype === null ? navigator : prototype;
}

if (globalThis.navigator === undefined) {
  const navigator = makeNavigator();
  defineAttribute(globalThis, 'navigator', () => navigator);
}

// Where another copy of this module was first, its objects stay together.
if (!('ml' in globalThis.navigator)) {
  defineAttribute(holderOfAttributes(globalThis.navigator), 'ml', () => ml);
  for (const [name, value] of Object.entries(interfaces)) defineInterface(name, value);
}

// Clients ask `instanceof GPUDevice`; nothing is one, here.
if (globalThis.GPUDevice === undefined) {
  class GPUDevice {
    constructor() {
      throw new TypeError('Illegal constructor');
    }
  }
  Object.defineProperty(GPUDevice.prototype, Symbol.toStringTag, { value: 'GPUDevice', configurable: true });
  defineInterface('GPUDevice', GPUDevice);
}

module.exports = webnn;
