'use strict';

// The native addon: flat functions on integer handles. Nothing else in lib/ knows where it comes from.

const fs = require('node:fs');
const path = require('node:path');

const file = path.join(__dirname, '..', 'native', `webnn-node.${process.platform}-${process.arch}.node`);

/** What to do, by the reason that Node gives. */
function advice({ code }) {
  switch (code) {
    case 'ERR_DLOPEN_DISABLED':
      return 'native addons are switched off: run Node without --no-addons, and with --allow-addons where there is --permission';
    case 'ERR_ACCESS_DENIED':
      return 'Node may not read it: run Node with --allow-fs-read for the folder of webnn-node, and with --allow-addons';
    case 'MODULE_NOT_FOUND':
      if (isInPackage()) return 'it is not there: run "npm run build"';
      return 'it is not beside this file, which is not in the folder of webnn-node: a bundler has to leave webnn-node out ("external")';
    default:
      return 'it is there, but the system cannot load it; the cause says why';
  }
}

/** Bundlers put these lines into files of their own. */
function isInPackage() {
  try {
    return JSON.parse(fs.readFileSync(path.join(__dirname, '..', 'package.json'), 'utf8')).name === 'webnn-node';
  } catch {
    return false;
  }
}

try {
  module.exports = require(file);
} catch (cause) {
  throw new Error(`webnn-node: the native addon could not be loaded from ${file}: ${advice(cause)}`, { cause });
}
