'use strict';

// What a process holds: resident memory, and on Linux what of that is in the heaps of the C library, open files, threads and mappings.

const fs = require('node:fs');
const { residentByKind } = require('./resident.js');

const list = (folder) => fs.readdirSync(folder).length;

/** @returns {{ MiB: number, library?: number, files?: number, threads?: number, mappings?: number }} */
function figures() {
  const MiB = Math.round(process.memoryUsage.rss() / 2 ** 20);
  if (process.platform !== 'linux') return { MiB };
  const mappings = fs.readFileSync('/proc/self/maps', 'utf8').split('\n').length - 1;
  const library = Math.round(residentByKind().library / 2 ** 20);
  return { MiB, library, files: list('/proc/self/fd'), threads: list('/proc/self/task'), mappings };
}

/** How much more there may be at the end than at half time: what caches, pools and the host's allocator vary by. */
const GROWTH = { MiB: 64, files: 16, threads: 16, mappings: 400 };

/** Throws if there is more at the end than after the first half. */
function requireLevel(what, half, end) {
  console.info(`${what}: ${JSON.stringify(half)} after the first half, ${JSON.stringify(end)} at the end`);
  const grown = Object.keys(GROWTH).filter((kind) => end[kind] > half[kind] + GROWTH[kind]);
  if (grown.length > 0) throw new Error(`${what}: ${grown.join(', ')} of the process grow`);
}

module.exports = { figures, requireLevel };
