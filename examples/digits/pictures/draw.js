// @ts-check
/// <reference path="../pngjs.d.ts" />
'use strict';

/*
 * Draws the sample pictures in this folder with a round pen:
 *
 *     node examples/digits/pictures/draw.js
 */

const fs = require('node:fs');
const path = require('node:path');
const { PNG } = require('pngjs');

const SIDE = 100;
const GREY = 0;

/**
 * @typedef {[number, number]} Point
 * @typedef {object} Drawing
 * @property {number} pen the width of the strokes
 * @property {number} ink 0 (black) to 255 (white)
 * @property {number} paper
 * @property {Point[][]} strokes smooth curves through these points
 */

/** @type {Record<string, Drawing>} */
const DRAWINGS = {
  'three.png': {
    pen: 8,
    ink: 20,
    paper: 255,
    strokes: [
      [[32, 28], [45, 17], [62, 22], [66, 35], [58, 45], [46, 48]],
      [[46, 48], [64, 52], [71, 66], [62, 80], [44, 83], [29, 74]],
    ],
  },
  'five.png': {
    pen: 5,
    ink: 40,
    paper: 240,
    strokes: [
      [[68, 20], [54, 21], [40, 22]],
      [[40, 22], [38, 34], [36, 46]],
      [[36, 46], [50, 41], [64, 48], [68, 63], [60, 77], [45, 81], [32, 75]],
    ],
  },
  'seven-light-on-dark.png': {
    pen: 10,
    ink: 235,
    paper: 30,
    strokes: [
      [[28, 22], [48, 21], [70, 20]],
      [[70, 20], [60, 40], [52, 60], [47, 84]],
      [[36, 52], [50, 50], [66, 49]],
    ],
  },
};

/**
 * Points close together on a Catmull-Rom spline through the given points.
 *
 * @param {Point[]} points
 * @returns {Point[]}
 */
function smooth(points) {
  /** @type {Point[]} */
  const out = [];
  const at = (/** @type {number} */ i) => points[Math.min(points.length - 1, Math.max(0, i))];
  for (let i = 0; i < points.length - 1; i++) {
    for (let t = 0; t <= 1; t += 1 / 32) {
      const axis = (/** @type {0 | 1} */ k) => {
        const [a, b, c, d] = [at(i - 1)[k], at(i)[k], at(i + 1)[k], at(i + 2)[k]];
        return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t ** 2 + (3 * b - a - 3 * c + d) * t ** 3);
      };
      out.push([axis(0), axis(1)]);
    }
  }
  return out;
}

/** @param {Drawing} drawing */
function draw({ pen, ink, paper, strokes }) {
  const points = strokes.flatMap(smooth);
  const picture = new PNG({ width: SIDE, height: SIDE });
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const distance = Math.min(...points.map(([px, py]) => Math.hypot(px - x, py - y)));
      const cover = Math.min(1, Math.max(0, pen / 2 + 0.5 - distance));
      const value = Math.round(cover * ink + (1 - cover) * paper);
      picture.data.set([value, value, value, 255], 4 * (y * SIDE + x));
    }
  }
  return PNG.sync.write(picture, { colorType: GREY, deflateLevel: 9 });
}

for (const [name, drawing] of Object.entries(DRAWINGS)) {
  fs.writeFileSync(path.join(__dirname, name), draw(drawing));
}
