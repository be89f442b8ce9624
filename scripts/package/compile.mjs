// Compiles an addon, and parts it from its symbols.
import { copyFileSync, cpSync, existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { ownPaths } from './builder.mjs';
import { must } from './command.mjs';
import { addonPart } from './parts.mjs';
import { MINGW, addonFile, libraryFile, targets } from './targets.mjs';
import { withLibnode, withTools, writeExports } from './tools.mjs';

const profile = 'published';
/** Apart from the builds of a clone: cargo compiles everything anew when flags change. */
const folder = inRepository('target', 'package');
export const symbols = inRepository('dist', 'symbols');

/** Servers without a desktop may lack them. MSVC's linker has them loaded when a GPU is looked for, and that of MinGW with the addon. */
const delayed = ['dxgi.dll', 'setupapi.dll'];

/** @returns {Promise<string>} the stripped addon; what debuggers want beside it is in dist/symbols */
export async function compileAddon(name, part) {
  const target = targets[name];
  const { triple, zig } = target;
  const command = zig === undefined ? ['build', '--target', triple] : ['zigbuild', '--target', triple + zig];
  const flags = [...(target.flags ?? []), ...(await remapping())];
  // The linker writes the path of MSVC's file of symbols into the library.
  if (triple.includes('msvc')) flags.push('-Clink-arg=/PDBALTPATH:%_PDB%', ...delayed.map((library) => `-Clink-arg=/DELAYLOAD:${library}`), '-Clink-arg=delayimp.lib');
  // Apple's symbols are made into a folder of their own by cargo, and MSVC's into a file.
  const apple = triple.includes('apple') ? { CARGO_PROFILE_PUBLISHED_SPLIT_DEBUGINFO: 'packed', CARGO_PROFILE_PUBLISHED_STRIP: 'symbols' } : {};
  // With symbols zig's linker keeps what nobody calls. What is published for Windows is MSVC's, and that has them.
  const mingw = triple === MINGW ? { ...(await withLibnode()), CARGO_PROFILE_PUBLISHED_DEBUG: 'none', CARGO_PROFILE_PUBLISHED_STRIP: 'symbols' } : {};
  // Not for constrain's: what it depends on is a shared library, too, and exports something else.
  if (triple === MINGW && part === addonPart) flags.push(`-Clink-arg=${writeExports()}`);
  // Not RUSTFLAGS, which is split at the spaces of paths.
  const env = { ...withTools(), ...mingw, ...apple, CARGO_ENCODED_RUSTFLAGS: flags.join('\x1f'), CARGO_TARGET_DIR: folder };
  await must('cargo', [...command, '--profile', profile, '--locked', '--manifest-path', part.manifest, '--package', part.crate], { env, limitSeconds: 7200, show: true });
  return separate(name, part, path.join(folder, triple, profile, libraryFile(target, part)));
}

/** Panic messages and symbols name source files, and not where they lie on this machine. */
async function remapping() {
  return Object.entries(await ownPaths()).map(([name, folder]) => `--remap-path-prefix=${folder}=${name}`);
}

async function separate(name, part, library) {
  const destination = inRepository('target', 'package', 'addons', addonFile(name, part));
  mkdirSync(path.dirname(destination), { recursive: true });
  mkdirSync(symbols, { recursive: true });
  if (targets[name].zig === undefined || targets[name].triple === MINGW) {
    copyFileSync(library, destination);
    for (const beside of [`${library}.dSYM`, library.replace(/\.dll$/, '.pdb')]) {
      if (beside !== library && existsSync(beside)) cpSync(beside, path.join(symbols, `${addonFile(name, part)}${path.extname(beside)}`), { recursive: true });
    }
    return destination;
  }
  const { objcopy, env } = await findObjcopy();
  const file = path.join(symbols, `${addonFile(name, part)}.debug`);
  await must(objcopy, ['--only-keep-debug', '--compress-debug-sections=zlib', library, file], { env });
  await must(objcopy, ['--strip-all', `--add-gnu-debuglink=${file}`, library, destination], { env });
  return destination;
}

/** LLVM's, which comes with Rust and knows every format. */
async function findObjcopy() {
  const sysroot = (await must('rustc', ['--print', 'sysroot'])).trim();
  const host = /^host: (.*)$/m.exec(await must('rustc', ['-vV']))[1];
  // It finds LLVM's library where rustc's is.
  return { objcopy: path.join(sysroot, 'lib', 'rustlib', host, 'bin', 'rust-objcopy'), env: { LD_LIBRARY_PATH: path.join(sysroot, 'lib') } };
}
