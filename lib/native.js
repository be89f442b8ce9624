'use strict';

// Loads the native addon: flat functions on integer handles. Nothing else in lib/ knows where it comes from.
//
// It is the first of these: the file that WEBNN_NATIVE names; native/ of a clone, which `npm run build` fills; the package of this platform.

const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const { afterFailure, afterMissingPackage, afterOtherVersion, afterUnknownPlatform } = require('./addon/advice.js');
const { packageOf, platforms, requirePackage } = require('./addon/packages.js');
const { isCut, platform } = require('./addon/platform.js');
const version = require('./version.js');

/** Where a clone has its addon. Bundles of ES modules have no `__dirname`, and a bundle has no addon beside it. */
function localBuild() {
  if (typeof __dirname !== 'string') return undefined;
  const file = path.join(__dirname, '..', 'native', `webnn-node.${process.platform}-${process.arch}.node`);
  return fs.existsSync(file) ? file : undefined;
}

/** Where this JavaScript is, for messages. Bundlers put it into files of their own. */
function place() {
  try {
    const folder = path.join(__dirname, '..');
    if (JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).name !== 'webnn-node') return 'bundle';
    return fs.existsSync(path.join(folder, 'Cargo.toml')) ? 'clone' : 'package';
  } catch {
    return 'bundle';
  }
}

function fromFile(file, mending) {
  refuseCut(file, file, mending);
  let addon;
  try {
    // Not the `require` of this module, which bundlers would follow, and which has built-in modules alone in a single executable.
    addon = createRequire(file)(file);
  } catch (cause) {
    throw failure(file, cause, mending);
  }
  return checked(addon, file, mending);
}

function fromVariable(value) {
  const file = path.resolve(value);
  const mending = `Remove the variable WEBNN_NATIVE, or set it to an addon of version ${version} for this platform.`;
  const refuse = (reason) => {
    throw new Error(`webnn-node: WEBNN_NATIVE is ${value}: ${reason}. ${mending}`);
  };
  if (!file.endsWith('.node')) refuse('Node loads addons from files whose names end with .node');
  const found = fs.statSync(file, { throwIfNoEntry: false });
  if (!found) refuse(`there is no such file (${file})`);
  if (!found.isFile()) refuse(`this is not a file (${file})`);
  return fromFile(file, mending);
}

const REINSTALL = 'Delete node_modules and install again.';

function fromPackage() {
  const here = platform();
  const candidates = here.system === 'linux' ? (here.libc ? [`-${here.libc}`] : ['-gnu', '-musl']) : [''];
  const names = candidates.map((libc) => `${here.system}-${here.architecture}${libc}`).filter((name) => name in platforms);
  if (names.length === 0) throw new Error(afterUnknownPlatform(here));
  const folders = foldersOfPackages();
  let missing;
  for (const name of names) {
    const folder = folders.map((place) => path.join(place, packageOf(name))).find((place) => fs.existsSync(place));
    if (folder) refuseCut(path.join(folder, `webnn-node.${name}.node`), packageOf(name), REINSTALL);
    const { addon, error } = requirePackage(name);
    if (!error) return checked(addon, `that of ${packageOf(name)}`, `Run "npm install ${packageOf(name)}@${version}", or install webnn-node again.`);
    if (folder || !isMissing(error, name)) throw failure(packageOf(name), error, REINSTALL);
    missing = error;
  }
  throw new Error(afterMissingPackage(names, here, folders, place()), { cause: missing });
}

/** The system would end the process without a word. */
function refuseCut(file, source, mending) {
  if (isCut(file)) throw failure(source, new Error(`${file}: file too short`), mending);
}

function failure(source, cause, mending) {
  return new Error(`webnn-node: the native addon could not be loaded from ${source}: ${afterFailure(cause, mending)}`, { cause });
}

/** Whether the package is not there, as opposed to an addon in it that wants a library which is not. */
function isMissing({ code, message }, name) {
  return /MODULE_NOT_FOUND|UNDECLARED_DEPENDENCY|MISSING_/.test(code) && message.includes(packageOf(name));
}

/** Where Node looks for packages. Bundlers leave `module.paths` out, or empty. */
function foldersOfPackages() {
  return typeof module === 'object' && Array.isArray(module.paths) ? module.paths : [];
}

function checked(addon, source, mending) {
  const found = typeof addon?.version === 'function' ? addon.version() : 'unknown';
  if (found === version && typeof addon.initialize === 'function') return addon;
  if (found === version || found === 'unknown') throw new Error(`webnn-node: the native addon is ${source}, which is not an addon of webnn-node. ${mending}`);
  throw new Error(afterOtherVersion(found, source, mending));
}

function load() {
  const { WEBNN_NATIVE } = process.env;
  if (WEBNN_NATIVE) return fromVariable(WEBNN_NATIVE);
  const local = localBuild();
  return local ? fromFile(local, 'Run "npm run build".') : fromPackage();
}

module.exports = load();
