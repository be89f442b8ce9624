// @ts-check
'use strict';

/*
 * Turns a user's picture into an image like those of the training set. Those
 * were made from 32x32 bitmaps in which the digit fills the whole height and
 * ink covers about 30 % of the area, whichever the digit; every 4x4 block
 * became one pixel, whose value is the number of ink pixels in the block.
 */

const { centre, cropToInk, inkArea, resize, spread, withoutSpecks } = require('./bitmap');
const { SIDE } = require('./network');
const { PictureError } = require('./picture-error');

const LARGEST_WORKING_SIDE = 512;
const LEAST_CONTRAST = 40;
const SMALLEST_SPECK = 0.05;
const STROKE_HEIGHT = 96;
const TYPICAL_INK = 0.3;
const BLOCK = 4;

/**
 * @param {import('./picture-file').Picture} picture
 * @returns {Uint8Array} 8x8 pixels, 0 (paper) to 16 (ink)
 */
function digitImage(picture) {
  const ink = findInk(picture);
  const digit = cropToInk(withoutSpecks(ink, SMALLEST_SPECK));
  return countBlocks(withTypicalStrokes(digit));
}

/**
 * Tells ink from paper. Paper is the middle value of the border; ink is what
 * differs from it, towards the side (darker or lighter) that differs most.
 *
 * @param {import('./picture-file').Picture} picture
 * @returns {import('./bitmap').Bitmap}
 */
function findInk(picture) {
  // Transparent parts show the backdrop: white, or black if nothing stands out on white.
  for (const backdrop of [255, 0]) {
    const { width, height, data } = greyPicture(picture, backdrop);
    const paper = middleOfBorder(width, height, data);
    let darkest = 255;
    let lightest = 0;
    for (const value of data) {
      darkest = Math.min(darkest, value);
      lightest = Math.max(lightest, value);
    }
    const darkOnLight = paper - darkest >= lightest - paper;
    const contrast = darkOnLight ? paper - darkest : lightest - paper;
    if (contrast < LEAST_CONTRAST) continue;
    return {
      width,
      height,
      data: Uint8Array.from(data, (value) => ((darkOnLight ? paper - value : value - paper) > contrast / 2 ? 1 : 0)),
    };
  }
  throw new PictureError('the picture is empty: nothing in it stands out from its background');
}

/**
 * The brightness of every pixel, 0 to 255; a large picture is made smaller by averaging.
 *
 * @param {import('./picture-file').Picture} picture
 * @param {number} backdrop the brightness behind transparent pixels
 */
function greyPicture(picture, backdrop) {
  const scale = Math.max(1, Math.max(picture.width, picture.height) / LARGEST_WORKING_SIDE);
  const width = Math.max(1, Math.round(picture.width / scale));
  const height = Math.max(1, Math.round(picture.height / scale));
  const sums = new Float64Array(width * height);
  const counts = new Float64Array(width * height);
  for (let y = 0; y < picture.height; y++) {
    const row = Math.floor((y * height) / picture.height) * width;
    for (let x = 0; x < picture.width; x++) {
      const at = row + Math.floor((x * width) / picture.width);
      sums[at] += brightness(picture.data, 4 * (y * picture.width + x), backdrop);
      counts[at]++;
    }
  }
  return { width, height, data: sums.map((sum, at) => sum / counts[at]) };
}

/**
 * @param {Uint8Array} rgba
 * @param {number} at
 * @param {number} backdrop
 */
function brightness(rgba, at, backdrop) {
  const luma = 0.299 * rgba[at] + 0.587 * rgba[at + 1] + 0.114 * rgba[at + 2];
  const alpha = rgba[at + 3] / 255;
  return alpha * luma + (1 - alpha) * backdrop;
}

/**
 * @param {number} width
 * @param {number} height
 * @param {Float64Array} data
 */
function middleOfBorder(width, height, data) {
  const border = data.filter((_, at) => {
    const x = at % width;
    const y = (at - x) / width;
    return x === 0 || y === 0 || x === width - 1 || y === height - 1;
  });
  return border.sort()[Math.floor(border.length / 2)];
}

/**
 * Makes the strokes thicker or thinner until ink covers the typical share of a
 * square as high as the digit.
 *
 * @param {import('./bitmap').Bitmap} digit
 * @returns {import('./bitmap').Bitmap}
 */
function withTypicalStrokes(digit) {
  // Any ink under a pixel counts, so that thin lines stay whole; a wide digit is narrowed to a square.
  const width = Math.min(STROKE_HEIGHT, Math.max(1, Math.round((STROKE_HEIGHT * digit.width) / digit.height)));
  let best = resize(digit, width, STROKE_HEIGHT, 0);
  let bestError = inkShare(best) - TYPICAL_INK;
  const value = bestError < 0 ? 1 : 0;
  let canvas = centre(best, width + STROKE_HEIGHT, 2 * STROKE_HEIGHT);
  for (let step = 0; step < STROKE_HEIGHT / 2; step++) {
    canvas = spread(canvas, value, step % 2 === 1);
    if (inkArea(canvas) === 0) break;
    const candidate = cropToInk(canvas);
    const error = inkShare(candidate) - TYPICAL_INK;
    if (Math.abs(error) >= Math.abs(bestError)) break;
    best = candidate;
    bestError = error;
  }
  return best;
}

/** @param {import('./bitmap').Bitmap} digit */
function inkShare(digit) {
  return inkArea(digit) / digit.height ** 2;
}

/**
 * Scales a digit to a 32x32 bitmap and counts the ink in every 4x4 block.
 *
 * @param {import('./bitmap').Bitmap} digit
 */
function countBlocks(digit) {
  const side = SIDE * BLOCK;
  const width = Math.min(side, Math.max(1, Math.round((side * digit.width) / digit.height)));
  const bitmap = centre(resize(digit, width, side, 0.5), side, side);
  const pixels = new Uint8Array(SIDE * SIDE);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      pixels[Math.floor(y / BLOCK) * SIDE + Math.floor(x / BLOCK)] += bitmap.data[y * side + x];
    }
  }
  return pixels;
}

module.exports = { digitImage };
