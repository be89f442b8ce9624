'use strict';

// The sources of a model and of its external data: files, which the native side reads, bytes, which it copies, or streams.

const { fileURLToPath } = require('node:url');
const { bufferSource, viewable } = require('../buffers.js');
const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');
const { streamOf } = require('./stream.js');

/**
 * A stream, or what the native side takes: a path, or a buffer source.
 * @typedef {{stream: import('./stream.js').Stream, origin?: undefined} | {stream?: undefined, origin: string | object}} Found
 */

/**
 * @param {string} operator
 * @param {unknown} source
 * @param {string} [name] of the source, for messages
 * @returns {Found}
 */
function findSource(operator, source, name) {
  const stream = streamOf(operator, source, name);
  return stream === undefined ? { origin: modelSource(operator, source, name) } : { stream };
}

/**
 * Sources of external data, by their locations.
 * @param {string} operator
 * @param {unknown} externalData
 * @returns {Map<string, Found>}
 */
function findExternal(operator, externalData = {}) {
  if (externalData === null || typeof externalData !== 'object') throw typeError(operator, '', `options: externalData: found ${show(externalData)}, allowed an object`);
  const name = (location) => `options: externalData: ${quote(location)}`;
  return new Map(Object.entries(externalData).map(([location, source]) => [location, findSource(operator, source, name(location))]));
}

/**
 * @param {string} operator
 * @param {unknown} source
 * @param {string} [name] of the source, for messages
 * @returns {string | object} a path, or a buffer source
 */
function modelSource(operator, source, name = 'source') {
  const path = pathSource(operator, source, name);
  if (path !== undefined) return path;
  try {
    return viewable(bufferSource(source));
  } catch {
    throw typeError(operator, '', `${name}: found ${show(source)}, allowed a path, a file URL, a buffer with the model's bytes, or a stream of them`);
  }
}

/**
 * @param {string} operator
 * @param {unknown} source
 * @param {string} [name] of the source, for messages
 * @returns {string | undefined} the path that a string or a URL is; nothing for what is neither
 */
function pathSource(operator, source, name = 'source') {
  if (isURL(source)) return pathOf(operator, `${source.href}`, name);
  if (typeof source !== 'string') return undefined;
  if (source === '' || source.includes('\0')) throw typeError(operator, '', `${name}: found no path, allowed the path of a file`);
  return source;
}

/** A URL of any realm or implementation: those of jsdom and happy-dom are not Node's. */
function isURL(source) {
  return typeof source === 'object' && source !== null && Object.prototype.toString.call(source) === '[object URL]';
}

function pathOf(operator, href, name) {
  try {
    return fileURLToPath(href);
  } catch (cause) {
    throw Object.assign(typeError(operator, '', `${name}: found the URL ${quote(href)}, allowed one of a file`), { cause });
  }
}

module.exports = { findExternal, findSource, modelSource, pathSource };
