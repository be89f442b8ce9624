'use strict';

// The source of a model: a file, which the native side maps, or bytes, which it copies.

const { fileURLToPath } = require('node:url');
const { bufferSource, viewable } = require('../buffers.js');
const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');

/**
 * @param {string} operator
 * @param {unknown} source
 * @returns {string | object} a path, or a buffer source
 */
function modelSource(operator, source) {
  if (typeof source === 'string') {
    if (source === '' || source.includes('\0')) throw typeError(operator, '', "source: found no path, allowed the path of a model's file");
    return source;
  }
  if (isURL(source)) return pathOf(operator, `${source.href}`);
  try {
    return viewable(bufferSource(source));
  } catch {
    throw typeError(operator, '', `source: found ${show(source)}, allowed a path, a file URL, a buffer with the model's bytes, or a stream of them`);
  }
}

/** A URL of any realm or implementation: those of jsdom and happy-dom are not Node's. */
function isURL(source) {
  return typeof source === 'object' && source !== null && Object.prototype.toString.call(source) === '[object URL]';
}

function pathOf(operator, href) {
  try {
    return fileURLToPath(href);
  } catch (cause) {
    throw Object.assign(typeError(operator, '', `source: found the URL ${quote(href)}, allowed one of a file`), { cause });
  }
}

module.exports = { modelSource };
