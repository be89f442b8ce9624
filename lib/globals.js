'use strict';

// What this package uses of Node's own global object. The global object that it sees itself may be another one: test
// environments such as jsdom's have a `globalThis` without some of these functions, or with functions of their own, and a
// `process` that is a copy.

const { runInThisContext } = require('node:vm');

const { process, structuredClone } = runInThisContext('globalThis');

module.exports = { process, structuredClone };
