'use strict';

// The option `cache` and the variable WEBNN_CACHE: the folder that keeps packed weights for later processes.

const os = require('node:os');
const path = require('node:path');
const { typeError } = require('./errors.js');
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

/** The folder that an option stands for; '' for none. */
function folderOption(operator, label, cache) {
  if (cache === undefined || cache === false) return '';
  if (cache === true) return folderOfEnvironment() || defaultFolder();
  if (typeof cache === 'string' && cache !== '') return path.resolve(cache);
  throw typeError(operator, label, `options: cache: found ${show(cache)}, allowed a boolean or the path of a folder`);
}

module.exports = { defaultFolder, folderOfEnvironment, folderOption };
