// What compiles for other platforms: rustup's standard libraries, and zig, whose C compiler links for each of them with nothing else
// installed. It and cargo-zigbuild, and zopfli for tarballs, come from PyPI into a folder of their own unless they are there.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { must, succeeds } from './command.mjs';
import { targets } from './targets.mjs';

const zigLanguage = 'ziglang==0.17.1';
const zigPackages = ['cargo-zigbuild==0.24.1', zigLanguage];
const zopfliPackages = ['zopfli==0.4.3'];
const folder = inRepository('target', 'package', 'python');
const libnode = inRepository('target', 'package', 'libnode');
const programs = path.join(folder, process.platform === 'win32' ? 'Scripts' : 'bin');

/** The Python that has what comes from PyPI. */
export const python = path.join(programs, process.platform === 'win32' ? 'python.exe' : 'python');

/** The environment in which cargo finds zig. */
export const withTools = () => ({ PATH: [programs, process.env.PATH].join(path.delimiter) });

export async function prepareTools(name) {
  const { triple, zig } = targets[name];
  await addTarget(triple);
  if (zig !== undefined) await installZig();
  await install(zopfliPackages, () => succeeds(python, ['-c', 'import zopfli.gzip']));
}

/**
 * With MinGW napi's build scripts want a library to import node.exe's functions from. This one has a name that nobody uses: the feature
 * `dyn-symbols` finds the functions when the addon is loaded.
 *
 * @returns {Promise<Record<string, string>>} the environment in which it is found
 */
export async function withLibnode() {
  mkdirSync(libnode, { recursive: true });
  const file = (name) => path.join(libnode, name);
  writeFileSync(file('node.def'), 'LIBRARY node.exe\nEXPORTS\nnapi_get_version\n');
  writeFileSync(file('libnode.dll'), ''); // They look whether it is there.
  const [zig, ...first] = await requireZig();
  await must(zig, [...first, 'dlltool', '-m', 'i386:x86-64', '-d', file('node.def'), '-D', 'node.exe', '-l', file('libnode.a')], { env: withTools() });
  return { LIBNODE_PATH: libnode };
}

/**
 * What the addon exports. cargo-zigbuild leaves rustc's list of it out, and without one the linker exports, and so keeps, every function.
 *
 * @returns {string} the file
 */
export function writeExports() {
  mkdirSync(libnode, { recursive: true });
  const file = path.join(libnode, 'addon.def');
  writeFileSync(file, 'EXPORTS\nnapi_register_module_v1\n');
  return file;
}

/** The program, or the package of Python's that has it, which is installed unless it is there. */
export async function requireZig() {
  await install([zigLanguage], async () => (await findZig()) !== undefined);
  return await findZig();
}

/** The same, if it is there. */
async function findZig() {
  for (const [command, ...first] of [['zig'], ['python3', '-m', 'ziglang']]) {
    if (await succeeds(command, [...first, 'version'], { env: withTools() })) return [command, ...first];
  }
  return undefined;
}

async function addTarget(triple) {
  if (!(await succeeds('rustup', ['--version']))) return; // Another Rust: cargo says what it lacks.
  const installed = await must('rustup', ['target', 'list', '--installed']);
  if (installed.split(/\s+/).includes(triple)) return;
  if (await succeeds('rustup', ['target', 'add', triple])) return;
  throw new Error(`rustup has no standard library for ${triple} here (rustup target add ${triple}): its package cannot be built`);
}

async function installZig() {
  const env = withTools();
  await install(zigPackages, async () => (await succeeds('cargo-zigbuild', ['--version'], { env })) && (await findZig()) !== undefined);
}

/** Packages of PyPI, into the folder of this repository unless they are there. */
async function install(packages, areThere) {
  if (await areThere()) return;
  if (!existsSync(python)) await must(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', folder]);
  await must(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
}
