'use strict';

// The platform of this process: system, architecture and, on Linux, the C library.

const fs = require('node:fs');

/** At most this much of a program is read; the header and the path of its loader are at the beginning. */
const HEADER = 65_536;
const PT_LOAD = 1;
const PT_INTERP = 3;

/** The program headers of an ELF file, as far as `bytes` has them; none where it is no ELF file. */
function* segments(bytes) {
  if (bytes.length < 64 || bytes.toString('latin1', 0, 4) !== '\x7fELF') return;
  const wide = bytes[4] === 2;
  const little = bytes[5] === 1;
  const short = (at) => (little ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at));
  const word = (at) => (little ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  // Offsets of 64 bits are compared with a length below 2^53: exact where they can be in `bytes`.
  const long = (at) => (little ? word(at) + word(at + 4) * 2 ** 32 : word(at) * 2 ** 32 + word(at + 4));
  const address = wide ? long : word;
  const table = address(wide ? 32 : 28);
  const [size, count] = wide ? [short(54), short(56)] : [short(42), short(44)];
  for (let index = 0; index < count; index++) {
    const entry = table + index * size;
    if (entry + (wide ? 56 : 32) > bytes.length) return;
    yield { type: word(entry), start: address(entry + (wide ? 8 : 4)), length: address(entry + (wide ? 32 : 16)) };
  }
}

/** The path of the loader that an ELF file asks for: undefined where it asks for none, or is none. */
function interpreter(bytes) {
  for (const { type, start, length } of segments(bytes)) {
    if (type !== PT_INTERP) continue;
    if (start + length > bytes.length) return undefined;
    return bytes.toString('latin1', start, start + length).replace(/\0.*$/s, '');
  }
  return undefined;
}

/**
 * Whether the end of an ELF file is missing, as after a copy that was interrupted. The system maps such a file, and ends the process when it
 * reads what is not there. False where the file cannot be read, and of files of other formats, which their loaders check.
 */
function isCut(file) {
  return withStart(file, (bytes, size) => [...segments(bytes)].some(({ type, start, length }) => type === PT_LOAD && start + length > size)) ?? false;
}

/** Gives `take` the beginning of a file, and its size; undefined where it cannot be read. */
function withStart(file, take) {
  let descriptor;
  try {
    descriptor = fs.openSync(file, 'r');
    const bytes = Buffer.alloc(HEADER);
    return take(bytes.subarray(0, fs.readSync(descriptor, bytes, 0, HEADER, 0)), fs.fstatSync(descriptor).size);
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) fs.closeSync(descriptor);
  }
}

/** What a loader or a library by this path belongs to. */
function ofPath(file) {
  const name = file.slice(file.lastIndexOf('/') + 1);
  // musl's loader and its C library are one file, which is `libc.so` where musl itself installs it; glibc's has a number.
  if (/^(ld-musl-|libc\.musl-|libc\.so$)/.test(name)) return 'musl';
  if (/^(ld-linux|ld64\.so|ld\.so\.1$|ld-2\.|libc\.so\.6$)/.test(name)) return 'gnu';
  return undefined;
}

/** What the running program was linked for. The path exists where the program itself has been moved or deleted. */
function ofProgram(file = '/proc/self/exe') {
  const loader = withStart(file, interpreter);
  return loader === undefined ? undefined : ofPath(loader);
}

/** What Node's report says: of a program that is started through its loader, or whose file may not be read. */
function ofReport(report = process.report) {
  if (typeof report?.getReport !== 'function') return undefined;
  // A report resolves the names of open connections unless it is told not to.
  const before = report.excludeNetwork;
  try {
    report.excludeNetwork = true;
    const { header, sharedObjects = [] } = report.getReport();
    if (header?.glibcVersionRuntime) return 'gnu';
    return sharedObjects.some((file) => ofPath(file) === 'musl') ? 'musl' : undefined;
  } catch {
    return undefined;
  } finally {
    if (before !== undefined) report.excludeNetwork = before;
  }
}

/**
 * @returns {{ system: string, architecture: string, libc: 'gnu' | 'musl' | undefined }} `libc` is undefined off Linux, and where
 *   nothing says what it is
 */
function platform() {
  const libc = process.platform === 'linux' ? (ofProgram() ?? ofReport()) : undefined;
  return { system: process.platform, architecture: process.arch, libc };
}

module.exports = { interpreter, isCut, ofPath, ofProgram, ofReport, platform };
