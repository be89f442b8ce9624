'use strict';

// The native addon: flat functions on integer handles. Nothing else in lib/ knows where it comes from.

const path = require('node:path');

const file = path.join(__dirname, '..', 'native', `webnn-node.${process.platform}-${process.arch}.node`);

try {
  module.exports = require(file);
} catch (cause) {
  throw new Error(`webnn-node: the native addon could not be loaded from ${file}: run "npm run build"`, { cause });
}
