'use strict';

// What this process has resident on Linux, by whom it is for, as far as its mappings tell.

const { readFileSync } = require('node:fs');

/** glibc maps its further arenas in pieces of so many bytes, each at a multiple of that. */
const ARENA = 64 << 20;

/** @typedef {{from: number, to: number, rights: string, name: string, resident: number}} Mapping */

/** @returns {Mapping[]} */
function mappings() {
  const found = [];
  for (const line of readFileSync('/proc/self/smaps', 'utf8').split('\n')) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$/.exec(line);
    if (head) found.push({ from: Number.parseInt(head[1], 16), to: Number.parseInt(head[2], 16), rights: head[3], name: head[4], resident: 0 });
    const size = /^Rss: +(\d+) kB/.exec(line);
    if (size) found.at(-1).resident = 1024 * Number(size[1]);
  }
  return found;
}

/**
 * Whether it is the used beginning of an arena: the rest of the piece is behind it and may not be read.
 * @param {Mapping} mapping
 * @param {Mapping} [next]
 */
function isArena({ from, to, rights, name }, next) {
  if (from % ARENA !== 0 || rights !== 'rw-p' || name !== '') return false;
  return to - from === ARENA || (next !== undefined && next.from === to && next.rights === '---p' && next.to === from + ARENA);
}

/**
 * Whether it is the stack of a thread: a page in front of it may not be read.
 * @param {Mapping} mapping
 * @param {Mapping} [before]
 */
function isStack({ from, rights, name }, before) {
  if (name === '[stack]') return true;
  return rights === 'rw-p' && name === '' && before !== undefined && before.to === from && before.rights === '---p' && before.to - before.from <= 64 << 10;
}

/**
 * Bytes: all, those of the C library's heaps, of files, of stacks, and of everything else, which are V8's and those of this package.
 * @returns {{resident: number, library: number, files: number, stacks: number, others: number}}
 */
function residentByKind() {
  const all = mappings();
  const sums = { library: 0, files: 0, stacks: 0, others: 0 };
  all.forEach((mapping, i) => {
    const kind = () => {
      if (mapping.name === '[heap]' || isArena(mapping, all[i + 1])) return 'library';
      if (isStack(mapping, all[i - 1])) return 'stacks';
      return mapping.name.startsWith('/') ? 'files' : 'others';
    };
    sums[kind()] += mapping.resident;
  });
  return { resident: all.reduce((sum, mapping) => sum + mapping.resident, 0), ...sums };
}

module.exports = { residentByKind };
