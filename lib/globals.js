'use strict';

// The members of Node's own global object that this package uses. The global object of this module may be another one: in test environments such
// as jsdom's, `globalThis` lacks some functions or has its own, and `process` is a copy.

const { runInThisContext } = require('node:vm');

const { process, structuredClone } = runInThisContext('globalThis');

module.exports = { process, structuredClone };
