// @ts-check
'use strict';

const { LARGEST_PIXEL, SIDE } = require('./network');

const SHADES = [' ', '░', '▒', '▓', '█'];
const WIDTH = 2 * SIDE;

/**
 * Draws an 8x8 image as eight lines of sixteen characters.
 *
 * @param {Uint8Array} pixels values 0 (paper) to 16 (ink)
 * @returns {string[]}
 */
function textPicture(pixels) {
  const lines = [];
  for (let row = 0; row < SIDE; row++) {
    let line = '';
    for (const value of pixels.subarray(row * SIDE, (row + 1) * SIDE)) {
      const shade = SHADES[Math.round((value / LARGEST_PIXEL) * (SHADES.length - 1))];
      line += shade + shade;
    }
    lines.push(line);
  }
  return lines;
}

/**
 * Sets blocks of lines next to each other.
 *
 * @param {string[][]} blocks all with the same number of lines
 * @returns {string[]}
 */
function sideBySide(blocks) {
  return blocks[0].map((_, line) =>
    blocks
      .map((block) => block[line].padEnd(WIDTH))
      .join('   ')
      .trimEnd(),
  );
}

/** @param {number} share 0 to 1 */
function percent(share) {
  const text = (100 * share).toFixed(2);
  return share < 1 && text === '100.00' ? '>99.99 %' : `${text} %`;
}

module.exports = { percent, sideBySide, textPicture };
