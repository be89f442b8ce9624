// @ts-check
/// <reference path="./pngjs.d.ts" />
'use strict';

const fs = require('node:fs');
const jpeg = require('jpeg-js');
const { PNG } = require('pngjs');
const { PictureError } = require('./picture-error');

const LARGEST_FILE = 64 * 1024 * 1024;
const LARGEST_MEGAPIXELS = 50;
const PNG_SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');
const JPEG_SIGNATURE = Buffer.from('ffd8ff', 'hex');

/**
 * @typedef {object} Picture
 * @property {number} width
 * @property {number} height
 * @property {Uint8Array} data red, green, blue and alpha of every pixel
 */

/**
 * Reads a PNG or JPEG file.
 *
 * @param {string} file
 * @returns {Picture}
 */
function readPicture(file) {
  const bytes = readBytes(file);
  if (startsWith(bytes, PNG_SIGNATURE)) return decode(file, 'PNG', () => decodePng(file, bytes));
  if (startsWith(bytes, JPEG_SIGNATURE)) return decode(file, 'JPEG', () => decodeJpeg(bytes));
  throw new PictureError(`not an image: ${file} (PNG and JPEG files can be read)`);
}

/** @param {string} file */
function readBytes(file) {
  try {
    const stats = fs.statSync(file);
    if (stats.isDirectory()) throw new PictureError(`not an image but a directory: ${file}`);
    if (!stats.isFile()) throw new PictureError(`not a file: ${file}`);
    if (stats.size > LARGEST_FILE) throw new PictureError(`the file is larger than 64 MiB: ${file}`);
    return fs.readFileSync(file);
  } catch (error) {
    if (error instanceof PictureError) throw error;
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code === 'ENOENT' || code === 'ENOTDIR') throw new PictureError(`no such file: ${file}`);
    if (code === 'EACCES' || code === 'EPERM') throw new PictureError(`no permission to read the file: ${file}`);
    throw new PictureError(`cannot read the file: ${file} (${message})`);
  }
}

/**
 * @param {Buffer} bytes
 * @param {Buffer} signature
 */
function startsWith(bytes, signature) {
  return bytes.subarray(0, signature.length).equals(signature);
}

/**
 * @param {string} file
 * @param {string} format
 * @param {() => Picture} decoder
 */
function decode(file, format, decoder) {
  try {
    return decoder();
  } catch (error) {
    if (error instanceof PictureError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new PictureError(`not an image: ${file} (damaged ${format} data: ${reason.split('\n')[0]})`);
  }
}

/**
 * @param {string} file
 * @param {Buffer} bytes
 * @returns {Picture}
 */
function decodePng(file, bytes) {
  // The size stands in the header, which the format puts first.
  const megapixels = (bytes.readUInt32BE(16) * bytes.readUInt32BE(20)) / 1e6;
  if (megapixels > LARGEST_MEGAPIXELS) {
    throw new PictureError(`the picture has more than ${LARGEST_MEGAPIXELS} megapixels: ${file}`);
  }
  return PNG.sync.read(bytes);
}

/**
 * @param {Buffer} bytes
 * @returns {Picture}
 */
function decodeJpeg(bytes) {
  return jpeg.decode(bytes, { useTArray: true, maxResolutionInMP: LARGEST_MEGAPIXELS, maxMemoryUsageInMB: 1024 });
}

module.exports = { readPicture };
