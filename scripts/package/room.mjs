// node scripts/package/room.mjs PLATFORM …: what takes the room in an addon that `npm run package` has made for Linux: its sections, and its code by
// crate, from the file of its symbols.
import { statSync } from 'node:fs';
import { argv } from 'node:process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { inRepository } from '../repository.mjs';
import { must } from './command.mjs';
import { symbols } from './compile.mjs';
import { addonPart } from './parts.mjs';
import { addonFile } from './targets.mjs';

/** Sections by what they are for. */
const KINDS = {
  code: /^\.(text|plt|init|fini)/,
  unwinding: /^\.(eh_frame|gcc_except_table)/,
  constants: /^\.rodata/,
  relocations: /^\.(rela|relr|data\.rel|got)/,
};

/** @param {string} text of `readelf --wide --section-headers` @returns {Record<string, number>} bytes of the file by kind */
export function roomOfSections(text) {
  const room = {};
  for (const [, name, type, size] of text.matchAll(/^ *\[ *\d+\] (\.\S+) +(\S+) +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)/gm)) {
    if (type === 'NOBITS') continue;
    const [kind] = Object.entries(KINDS).find(([, pattern]) => pattern.test(name)) ?? ['other'];
    room[kind] = (room[kind] ?? 0) + Number.parseInt(size, 16);
  }
  return room;
}

/** The crate that a function is of: of a method that of its type, and `core` for types of the language. */
export function crateOf(name) {
  const [, crate, path] = /^(?:[<&[(*]|\b(?:mut|const|dyn) )*([A-Za-z_]\w*)(?:\[[0-9a-f]+\])?(::)?/.exec(name) ?? [];
  if (path !== undefined) return crate;
  return /^[<&[(*]/.test(name) ? 'core' : 'functions of C';
}

/** @param {string} text of `nm --demangle --print-size` @returns {Record<string, { bytes: number, functions: number }>} by crate, the largest first */
export function roomOfCrates(text) {
  const crates = {};
  const seen = new Set();
  for (const [, address, size, name] of text.matchAll(/^([0-9a-f]+) ([0-9a-f]+) [tTwW] (.*)$/gm)) {
    // One function may have several names.
    if (seen.has(address)) continue;
    seen.add(address);
    const entry = (crates[crateOf(name)] ??= { bytes: 0, functions: 0 });
    entry.bytes += Number.parseInt(size, 16);
    entry.functions++;
  }
  return Object.fromEntries(Object.entries(crates).sort(([, a], [, b]) => b.bytes - a.bytes));
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(2);

async function say(platform) {
  const addon = inRepository('target', 'package', 'addons', addonFile(platform, addonPart));
  const sections = roomOfSections(await must('readelf', ['--wide', '--section-headers', addon]));
  const crates = roomOfCrates(await must('nm', ['--demangle', '--print-size', '--defined-only', path.join(symbols, `${addonFile(platform, addonPart)}.debug`)]));
  console.log(`${platform}: ${megabytes(statSync(addon).size)} MB`);
  for (const [kind, bytes] of Object.entries(sections)) console.log(`  ${kind.padEnd(20)} ${megabytes(bytes)}`);
  for (const [crate, { bytes, functions }] of Object.entries(crates).filter(([, entry]) => entry.bytes >= 50_000)) {
    console.log(`    ${crate.padEnd(18)} ${megabytes(bytes)}, ${functions} functions`);
  }
}

if (argv[1] === fileURLToPath(import.meta.url)) for (const platform of argv.slice(2)) await say(platform);
