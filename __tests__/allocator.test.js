'use strict';

// The allocator of the process is the program's: nothing here sets it up, and nothing is allocated only to change what it does.

const { existsSync, readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');

/** What sets an allocator up or replaces it. Setting the threshold of mmap by freeing a large block needs none of it: large blocks are no allocator's here. */
const SETTINGS = ['mallopt', '__libc_mallopt', 'mallctl', 'je_mallctl', 'mi_option_set', '__malloc_hook', '__free_hook', '__morecore', 'sbrk', 'brk'];
/** Functions of the C library's allocator. `malloc_trim` changes no setting. */
const ALLOWED = ['malloc', 'calloc', 'realloc', 'free', 'posix_memalign', 'aligned_alloc', 'malloc_trim'];
const ALLOCATOR = /^(?:\w*alloc\w*|free|\w*memalign|mallinfo\d?|\w*mallctl\w*|mi_\w+|s?brk)$/;

function sources(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.(?:rs|c|js|mjs|cjs)$/.test(entry.name))
    .map(({ parentPath, path: older, name }) => path.join(parentPath ?? older, name));
}

test.each(['src', 'crates', 'lib', path.join('packages', 'constrain', 'crate', 'src'), path.join('packages', 'serve', 'lib')])('%s sets no allocator up', (folder) => {
  const files = sources(path.join(root, folder));
  expect(files.length).toBeGreaterThan(0);
  const words = new RegExp(`\\b(?:${SETTINGS.join('|')}|MALLOC_[A-Z_]+|GLIBC_TUNABLES|LD_PRELOAD|M_(?:TRIM|MMAP)_THRESHOLD|M_ARENA_MAX)\\b`);
  const found = files.flatMap((file) => {
    const code = readFileSync(file, 'utf8').split('\n').filter((line) => !/^\s*(?:\/\/|\*)/.test(line));
    return code.filter((line) => words.test(line)).map((line) => `${path.relative(root, file)}: ${line.trim()}`);
  });
  expect(found).toEqual([]);
});

/** The names of the functions that a shared library wants of others (ELF, 64 bits, little-endian). */
function imported(file) {
  const elf = readFileSync(file);
  const number = (at) => Number(elf.readBigUInt64LE(at));
  const sections = Array.from({ length: elf.readUInt16LE(60) }, (_, i) => number(40) + i * elf.readUInt16LE(58));
  const DYNSYM = 11;
  const symbols = sections.find((at) => elf.readUInt32LE(at + 4) === DYNSYM);
  const names = number(sections[elf.readUInt32LE(symbols + 40)] + 24);
  const found = [];
  for (let at = number(symbols + 24); at < number(symbols + 24) + number(symbols + 32); at += 24) {
    const name = names + elf.readUInt32LE(at);
    if (elf.readUInt16LE(at + 6) === 0) found.push(elf.toString('latin1', name, elf.indexOf(0, name)));
  }
  return found;
}

const addons = [path.join(root, 'native'), path.join(root, 'packages', 'constrain', 'native')]
  .filter((folder) => existsSync(folder))
  .flatMap((folder) => readdirSync(folder).map((name) => path.join(folder, name)))
  .filter((file) => file.endsWith('.node'));

// The symbols are read from ELF, which other systems do not have.
(process.platform === 'linux' ? test : test.skip)('addons want nothing of an allocator but memory', () => {
  expect(addons.length).toBeGreaterThan(0);
  for (const file of addons) {
    const symbols = imported(file);
    expect(symbols).toEqual(expect.arrayContaining(['malloc', 'free']));
    expect(symbols.filter((name) => ALLOCATOR.test(name) && !ALLOWED.includes(name))).toEqual([]);
  }
});
