// Reads pictures.

import { readFileSync } from 'node:fs';

const SIZE = 4;

/** The pixels of a PPM file (P6), as [3, 4, 4]: each is the mean of its part of the picture, from -1 to 1. */
export function pixelsOf(file) {
  const bytes = readFileSync(file);
  const header = /^P6\s+(?:#.*\s+)*(\d+)\s+(\d+)\s+255\s/.exec(bytes.subarray(0, 200).toString('latin1'));
  const [width, height] = header === null ? [0, 0] : [Number(header[1]), Number(header[2])];
  if (header === null || width < SIZE || height < SIZE || bytes.length !== header[0].length + 3 * width * height) {
    throw new Error(`${file}: found something else, allowed a PPM file (P6) of ${SIZE} × ${SIZE} pixels or more`);
  }
  const pixels = new Float32Array(3 * SIZE * SIZE);
  const counts = new Float32Array(SIZE * SIZE);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const place = Math.floor((y * SIZE) / height) * SIZE + Math.floor((x * SIZE) / width);
      counts[place]++;
      for (let channel = 0; channel < 3; channel++) {
        pixels[channel * SIZE * SIZE + place] += bytes[header[0].length + 3 * (y * width + x) + channel];
      }
    }
  }
  return pixels.map((sum, i) => sum / counts[i % (SIZE * SIZE)] / 127.5 - 1);
}
