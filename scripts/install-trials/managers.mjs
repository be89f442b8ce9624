// Package managers: each installs from the trial's registry, without scripts, and what it installed runs.
import path from 'node:path';
import { bun, runTrial } from './runtimes.mjs';
import { Project, succeed, tool } from './surroundings.mjs';

const node = process.execPath;
const pnpm = async () => [node, path.join(await tool('pnpm'), 'pnpm', 'bin', 'pnpm.mjs')];
const yarn1 = async () => [node, path.join(await tool('yarn@1'), 'yarn', 'bin', 'yarn.js')];
const yarn4 = async () => [node, path.join(await tool('@yarnpkg/cli-dist'), '@yarnpkg', 'cli-dist', 'bin', 'yarn.js')];

const yarnSettings = (registry, linker) => ({
  '.yarnrc.yml': `npmRegistryServer: "${registry.url}"\nunsafeHttpWhitelist: ["127.0.0.1"]\nnodeLinker: ${linker}\nenableScripts: false\nenableTelemetry: false
enableGlobalCache: false\nnpmMinimalAgeGate: 0\n`,
  'yarn.lock': '',
});

/** `start` gives the manager's program, with its first arguments. */
export const managers = (registry) => [
  { name: 'npm', install: (project, packages) => project.npm('install', '--ignore-scripts', ...packages) },
  { name: 'pnpm', start: pnpm, args: (packages) => ['add', '--ignore-scripts', '--config.minimumReleaseAge=0', ...packages] },
  { name: 'Yarn 1', start: yarn1, args: (packages) => ['add', '--ignore-scripts', '--no-progress', '--registry', registry.url, ...packages] },
  { name: 'Yarn 4, node_modules', start: yarn4, args: (packages) => ['add', ...packages], files: yarnSettings(registry, 'node-modules') },
  { name: "Yarn 4, Plug'n'Play", start: yarn4, args: (packages) => ['add', ...packages], files: yarnSettings(registry, 'pnp'), plugAndPlay: true },
  { name: 'Bun', start: async () => [await bun()], args: (packages) => ['add', '--ignore-scripts', ...packages] },
];

/** @returns {Promise<Project>} with the packages installed */
export async function installWith(manager, registry, packages, description) {
  const project = new Project(registry, description);
  for (const [file, text] of Object.entries(manager.files ?? {})) project.write(file, text);
  if (manager.install) await manager.install(project, packages);
  else {
    const [program, ...first] = await manager.start();
    await succeed(program, [...first, ...manager.args(packages)], { cwd: project.folder, env: cachesIn(project.folder) });
  }
  return project;
}

export const cachesIn = (folder) => ({ XDG_CACHE_HOME: path.join(folder, '.cache'), BUN_INSTALL_CACHE_DIR: path.join(folder, '.bun-cache'), XDG_DATA_HOME: path.join(folder, '.data'), YARN_CACHE_FOLDER: path.join(folder, '.yarn-cache'), CI: '' });

export async function runIn(manager, project, args, run = runTrial) {
  if (!manager.plugAndPlay) return run(node, args, { cwd: project.folder });
  return run(node, ['--require', './.pnp.cjs', ...args], { cwd: project.folder });
}

export const managerTrials = ({ registry, expected, version }) => managers(registry).map((manager) => [manager.name, async () => {
  const project = await installWith(manager, registry, [`webnn-node@${version}`]);
  try {
    const printed = await runIn(manager, project, ['trial.cjs']);
    if (printed !== expected) throw new Error(`it computes ${printed}, not ${expected}`);
  } finally {
    project.remove();
  }
}]);
