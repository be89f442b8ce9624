'use strict';

// Loads the native part: of the clone, or of the package of this platform.

const fs = require('node:fs');
const path = require('node:path');
const { version } = require('../package.json');

/** What the package with the native part is named by: `linux-x64-gnu`. */
function platform() {
  const { platform: system, arch } = process;
  if (system !== 'linux') return `${system}-${arch}`;
  const isGlibc = process.report?.getReport().header.glibcVersionRuntime !== undefined;
  return `${system}-${arch}-${isGlibc ? 'gnu' : 'musl'}`;
}

function load() {
  const built = path.join(__dirname, '..', 'native', `webnn-constrain.${process.platform}-${process.arch}.node`);
  if (fs.existsSync(built)) return require(built);
  const name = `@webnn-node/constrain-${platform()}`;
  try {
    return require(name);
  } catch (cause) {
    if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
    const error = new Error(`@webnn-node/constrain: its native part is not installed. Run "npm install --include=optional ${name}@${version}", or "npm run build" in a clone.`);
    error.cause = cause;
    throw error;
  }
}

module.exports = load();
