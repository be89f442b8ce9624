'use strict';

// The option `cache` and the variable WEBNN_CACHE: the folder that keeps packed weights for later processes.

const os = require('node:os');
const path = require('node:path');
const { Mismatch, typeError } = require('./errors.js');
const { show } = require('./show.js');

/** Where the platform has caches of a user. */
function defaultFolder() {
  const { LOCALAPPDATA, XDG_CACHE_HOME } = process.env;
  const places = { win32: LOCALAPPDATA, darwin: path.join(os.homedir(), 'Library', 'Caches') };
  const usual = path.isAbsolute(XDG_CACHE_HOME ?? '') ? XDG_CACHE_HOME : path.join(os.homedir(), '.cache');
  return path.join((process.platform in places ? places[process.platform] : usual) ?? usual, 'webnn-node');
}

/** The folder that WEBNN_CACHE names, `1` for that of the platform; '' without one. */
function folderOfEnvironment() {
  const { WEBNN_CACHE = '' } = process.env;
  if (WEBNN_CACHE === '' || WEBNN_CACHE === '0') return '';
  return WEBNN_CACHE === '1' ? defaultFolder() : path.resolve(WEBNN_CACHE);
}

const ALLOWED = 'a boolean or the path of a folder';

/** The folder that an option stands for; '' for none. */
function cacheFolder(value) {
  if (value === false) return '';
  if (value === true) return folderOfEnvironment() || defaultFolder();
  if (typeof value === 'string' && value !== '') return path.resolve(value);
  throw new Mismatch(value, ALLOWED);
}

/** The member of dictionaries. */
const cacheMember = { name: 'cache', convert: cacheFolder };

/** The same of options that are no dictionary. */
function folderOption(operator, label, cache) {
  if (cache === undefined) return '';
  try {
    return cacheFolder(cache);
  } catch {
    throw typeError(operator, label, `options: cache: found ${show(cache)}, allowed ${ALLOWED}`);
  }
}

module.exports = { cacheMember, defaultFolder, folderOfEnvironment, folderOption };
