// What must hold of an addon before it is packed.
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ownPaths } from './builder.mjs';
import { must, succeeds } from './command.mjs';
import { ours } from './description.mjs';
import { addonPart } from './parts.mjs';
import { GLIBC, MINGW, targets } from './targets.mjs';

const { platform } = createRequire(import.meta.url)('../../lib/addon/platform.js');

const LARGEST = 20e6;
/** Libraries that every system has which Node runs on. Neither libstdc++ nor libgcc_s: musl's images lack them. */
const libraries = /^(lib(c|m|dl|pthread|rt)\.so(\.\d+)?|ld-linux[-\w]*\.so\.\d|libc\.musl-\w+\.so\.1)$/;

/** The same for Windows: none of MinGW's own, and nothing of Direct3D but what `compile.mjs` has MSVC load when it is called. */
const windowsLibraries = /^(api-ms-win-(core|crt)-[\w-]+|advapi32|bcrypt|bcryptprimitives|dxgi|gdi32|kernel32|ntdll|ole32|oleaut32|psapi|setupapi|shell32|user32|userenv|ws2_32)\.dll$/i;

/** @returns {Promise<number>} its size */
export async function checkAddon(name, part, file) {
  const { size } = statSync(file);
  if (size > LARGEST) throw new Error(`${file} has ${size} bytes, more than ${LARGEST}`);
  if (targets[name].triple.includes('linux')) await checkElf(file);
  if (targets[name].triple === MINGW) await checkPe(file);
  checkPaths(file, Object.values(await ownPaths()));
  if (part === addonPart) await checkVersion(name, file);
  return size;
}

/** Where this machine can load it. */
async function checkVersion(name, file) {
  const { system, architecture, libc } = platform();
  if (name !== [system, architecture, ...(libc ? [libc] : [])].join('-')) return;
  const found = (await must(process.execPath, ['-p', `require(${JSON.stringify(file)}).version()`])).trim();
  if (found !== ours().version) throw new Error(`${file} is of version ${found}, not ${ours().version}`);
}

/** Paths of the machine that built it say who did, and differ from machine to machine. */
export function checkPaths(file, folders) {
  const bytes = readFileSync(file);
  for (const folder of folders) {
    const at = bytes.indexOf(folder + path.sep);
    if (at < 0) continue;
    const text = bytes.toString('latin1', at, at + 200).replace(/[^ -~].*$/s, '');
    throw new Error(`${file} holds a path of this machine: ${text} (compile.mjs)`);
  }
}

async function checkElf(file) {
  if (!(await succeeds('readelf', ['--version']))) throw new Error('readelf was not found: install binutils');
  const dynamic = await must('readelf', ['--wide', '--dynamic', file]);
  const needed = [...dynamic.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, library]) => library);
  const others = needed.filter((library) => !libraries.test(library));
  if (others.length > 0) throw new Error(`${file} wants ${others.join(', ')}`);
  if (/\((RPATH|RUNPATH|TEXTREL)\)/.test(dynamic)) throw new Error(`${file} has a path to libraries, or code that is relocated`);
  if (!/NODELETE/.test(dynamic)) throw new Error(`${file} may be unmapped while its threads return (build.rs)`);
  const versions = newerThan(await must('readelf', ['--wide', '--version-info', file]), GLIBC);
  if (versions.length > 0) throw new Error(`${file} wants ${versions.join(', ')}, which is newer than glibc ${GLIBC}`);
}

async function checkPe(file) {
  if (!(await succeeds('objdump', ['--version']))) throw new Error('objdump was not found: install binutils');
  const others = foreignImports(await must('objdump', ['--private-headers', file]));
  if (others.length > 0) throw new Error(`${file} wants ${others.join(', ')}`);
}

/** What a library for Windows imports that not every Windows has. */
export function foreignImports(text) {
  const imports = [...text.matchAll(/^\s*DLL Name: (.*)$/gm)].map(([, library]) => library.trim());
  return imports.filter((library) => !windowsLibraries.test(library));
}

/** The versions of glibc's symbols in `text` that a glibc does not have. */
export function newerThan(text, glibc) {
  const numbers = (version) => version.split('.').map(Number);
  const [major, minor] = numbers(glibc);
  const found = new Set([...text.matchAll(/GLIBC_(\d+(?:\.\d+)+)/g)].map(([, version]) => version));
  return [...found].filter((version) => numbers(version)[0] > major || (numbers(version)[0] === major && numbers(version)[1] > minor));
}
