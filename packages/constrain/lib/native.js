'use strict';

// Loads the native part: of the clone, or of the package of this platform.

const fs = require('node:fs');
const path = require('node:path');
const { version } = require('../package.json');

/** What a package with the native part may be named by, the likeliest first: `linux-x64-gnu`. */
function platforms() {
  const { platform: system, arch, report } = process;
  if (system !== 'linux') return [`${system}-${arch}`];
  const names = ['gnu', 'musl'].map((libc) => `${system}-${arch}-${libc}`);
  if (report === undefined) return names;
  // Otherwise the report asks for the names of all hosts that the process is connected with.
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  const isGlibc = report.getReport().header.glibcVersionRuntime !== undefined;
  report.excludeNetwork = excludeNetwork;
  return isGlibc ? names : names.reverse();
}

/**
 * The native part in the package of a platform, or why there is none. Every name is written out, and inside `try`: bundlers find those that
 * are installed and pass over the others.
 *
 * @returns {{ native?: any, error?: any }}
 */
function requirePackage(name) {
  try {
    switch (name) {
      case 'linux-x64-gnu':
        return { native: require('@webnn-node/constrain-linux-x64-gnu') };
      case 'linux-x64-musl':
        return { native: require('@webnn-node/constrain-linux-x64-musl') };
      case 'linux-arm64-gnu':
        return { native: require('@webnn-node/constrain-linux-arm64-gnu') };
      case 'linux-arm64-musl':
        return { native: require('@webnn-node/constrain-linux-arm64-musl') };
      case 'darwin-arm64':
        return { native: require('@webnn-node/constrain-darwin-arm64') };
      case 'darwin-x64':
        return { native: require('@webnn-node/constrain-darwin-x64') };
      case 'win32-x64':
        return { native: require('@webnn-node/constrain-win32-x64') };
      case 'win32-arm64':
        return { native: require('@webnn-node/constrain-win32-arm64') };
      default:
        throw new Error(`@webnn-node/constrain: there is no native part for ${name}`);
    }
  } catch (error) {
    return { error };
  }
}

function checked(native, source, mending) {
  const found = typeof native?.version === 'function' ? native.version() : 'unknown';
  if (found === version) return native;
  throw new Error(
    `@webnn-node/constrain: the JavaScript is of version ${version}, and the native part is of version ${found}.\nThe native part is ${source}.\n${mending}`,
  );
}

/** A file that is there, and that the system does not load. */
function failure(source, cause) {
  const message = `@webnn-node/constrain: the native part could not be loaded from ${source}: ${cause.message}\nDelete node_modules and install again.`;
  return new Error(message, { cause });
}

function load() {
  const built = path.join(__dirname, '..', 'native', `webnn-constrain.${process.platform}-${process.arch}.node`);
  if (fs.existsSync(built)) return checked(require(built), built, 'Run "npm run build".');
  const names = platforms();
  let cause;
  for (const name of names) {
    const { native, error } = requirePackage(name);
    if (native) {
      const wanted = `@webnn-node/constrain-${name}`;
      return checked(native, `the package ${wanted}`, `Run "npm install ${wanted}@${version}", or install @webnn-node/constrain again.`);
    }
    if (error.code !== 'MODULE_NOT_FOUND') throw failure(`@webnn-node/constrain-${name}`, error);
    cause ??= error;
  }
  const wanted = `@webnn-node/constrain-${names[0]}@${version}`;
  throw new Error(`@webnn-node/constrain: its native part is not installed. Run "npm install --include=optional ${wanted}", or "npm run build" in a clone.`, { cause });
}

module.exports = load();
