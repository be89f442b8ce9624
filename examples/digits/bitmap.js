// @ts-check
'use strict';

/**
 * @typedef {object} Bitmap
 * @property {number} width
 * @property {number} height
 * @property {Uint8Array} data 1 for ink, 0 for paper
 */

/**
 * @param {Bitmap} bitmap
 * @returns {number} how many pixels are ink
 */
function inkArea(bitmap) {
  let area = 0;
  for (const value of bitmap.data) area += value;
  return area;
}

/**
 * Takes away specks: groups of touching pixels that are small beside the largest group.
 *
 * @param {Bitmap} bitmap
 * @param {number} smallestShare the least share of the largest group's area that is kept
 * @returns {Bitmap}
 */
function withoutSpecks({ width, height, data }, smallestShare) {
  const group = new Int32Array(data.length).fill(-1);
  /** @type {number[]} */
  const areas = [];
  for (let start = 0; start < data.length; start++) {
    if (data[start] === 0 || group[start] !== -1) continue;
    const number = areas.length;
    let area = 0;
    const waiting = [start];
    group[start] = number;
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      area++;
      const x = at % width;
      const y = (at - x) / width;
      for (let ny = Math.max(0, y - 1); ny <= Math.min(height - 1, y + 1); ny++) {
        for (let nx = Math.max(0, x - 1); nx <= Math.min(width - 1, x + 1); nx++) {
          const next = ny * width + nx;
          if (data[next] === 0 || group[next] !== -1) continue;
          group[next] = number;
          waiting.push(next);
        }
      }
    }
    areas.push(area);
  }
  const least = smallestShare * areas.reduce((a, b) => Math.max(a, b), 0);
  return { width, height, data: Uint8Array.from(group, (number) => (number !== -1 && areas[number] >= least ? 1 : 0)) };
}

/**
 * Cuts a bitmap that has ink down to the smallest rectangle that holds all of it.
 *
 * @param {Bitmap} bitmap
 * @returns {Bitmap}
 */
function cropToInk({ width, height, data }) {
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[y * width + x] === 0) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  const cropped = { width: right - left + 1, height: bottom - top + 1 };
  const out = new Uint8Array(cropped.width * cropped.height);
  for (let y = 0; y < cropped.height; y++) {
    const start = (top + y) * width + left;
    out.set(data.subarray(start, start + cropped.width), y * cropped.width);
  }
  return { ...cropped, data: out };
}

/**
 * Scales a bitmap. A new pixel is ink when more than `share` of the old pixels under it are.
 *
 * @param {Bitmap} bitmap
 * @param {number} width
 * @param {number} height
 * @param {number} share
 * @returns {Bitmap}
 */
function resize(bitmap, width, height, share) {
  const out = new Uint8Array(width * height);
  for (let y = 0; y < height; y++) {
    const [top, bottom] = covered(y, bitmap.height / height);
    for (let x = 0; x < width; x++) {
      const [left, right] = covered(x, bitmap.width / width);
      let ink = 0;
      for (let sy = top; sy < bottom; sy++) {
        for (let sx = left; sx < right; sx++) ink += bitmap.data[sy * bitmap.width + sx];
      }
      out[y * width + x] = ink > share * (bottom - top) * (right - left) ? 1 : 0;
    }
  }
  return { width, height, data: out };
}

/**
 * The old pixels from the first up to, not including, the second lie under a new pixel.
 *
 * @param {number} index
 * @param {number} scale old pixels for each new pixel
 * @returns {[number, number]}
 */
function covered(index, scale) {
  const first = Math.floor(index * scale);
  return [first, Math.max(first + 1, Math.floor((index + 1) * scale))];
}

/**
 * Puts a bitmap in the middle of a larger one.
 *
 * @param {Bitmap} bitmap
 * @param {number} width
 * @param {number} height
 * @returns {Bitmap}
 */
function centre(bitmap, width, height) {
  const out = new Uint8Array(width * height);
  const left = Math.floor((width - bitmap.width) / 2);
  const top = Math.floor((height - bitmap.height) / 2);
  for (let y = 0; y < bitmap.height; y++) {
    out.set(bitmap.data.subarray(y * bitmap.width, (y + 1) * bitmap.width), (top + y) * width + left);
  }
  return { width, height, data: out };
}

/**
 * Makes every stroke thicker (`value` 1) or thinner (`value` 0) by one pixel on each side.
 *
 * @param {Bitmap} bitmap
 * @param {0 | 1} value what spreads: ink or paper
 * @param {boolean} diagonally also to the corners; taking turns keeps strokes round
 * @returns {Bitmap}
 */
function spread({ width, height, data }, value, diagonally) {
  const out = Uint8Array.from(data);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[y * width + x] !== value) continue;
      for (let dy = -1; dy <= 1; dy++) {
        for (let dx = -1; dx <= 1; dx++) {
          if (!diagonally && dx !== 0 && dy !== 0) continue;
          const [nx, ny] = [x + dx, y + dy];
          if (nx >= 0 && nx < width && ny >= 0 && ny < height) out[ny * width + nx] = value;
        }
      }
    }
  }
  return { width, height, data: out };
}

module.exports = { centre, cropToInk, inkArea, resize, spread, withoutSpecks };
