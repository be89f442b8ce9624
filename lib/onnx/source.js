'use strict';

// Where a model comes from: a file, which the native side maps, or bytes, which it copies.

const { fileURLToPath } = require('node:url');
const { bufferSource, viewable } = require('../buffers.js');
const { typeError } = require('../errors.js');
const { show } = require('../show.js');

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
  if (source instanceof URL) return fileURLToPath(source);
  try {
    return viewable(bufferSource(source));
  } catch {
    throw typeError(operator, '', `source: found ${show(source)}, allowed a path, a file URL, or a buffer with the model's bytes`);
  }
}

module.exports = { modelSource };
