// Where the platform's package is missing, or of another version, the message names commands; following them works.
import { rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { addonOf, renumberAddon } from './copies.mjs';
import { cachesIn, installWith, managers, runIn } from './managers.mjs';
import { runTrial } from './runtimes.mjs';
import { Project, fail, npm, succeed } from './surroundings.mjs';

const node = process.execPath;
const follow = (project, command) => npm(command.split(' '), { cwd: project.folder });

/** How the package comes to be missing. */
const ways = {
  '--omit=optional': (project, name) => project.npm('install', '--ignore-scripts', '--omit=optional', name),
  'node_modules of another platform': (project, name) => project.npm('install', '--ignore-scripts', '--os=win32', '--cpu=x64', name),
};

/** The command of a manager in the message: what comes after the manager's name. */
function commandIn(message, name) {
  const command = new RegExp(`^ {2}${name} (.*)$`, 'm').exec(message)?.[1];
  if (!command) throw new Error(`the message names no command of ${name}:\n${message}`);
  return command;
}

async function runs(expected, run) {
  const printed = await run();
  if (printed !== expected) throw new Error(`it computes ${printed}`);
}

const npmTrials = ({ registry, version, expected, own }) => Object.entries(ways).map(([name, install]) => [
  `a missing package is mended: ${name}`,
  async () => {
    const project = new Project(registry);
    try {
      await install(project, `webnn-node@${version}`);
      const message = await fail(node, ['trial.cjs'], { cwd: project.folder });
      for (const part of [`@webnn-node/${own}`, path.join(project.folder, 'node_modules')]) {
        if (!message.includes(part)) throw new Error(`the message does not name ${part}:\n${message}`);
      }
      const command = commandIn(message, 'npm');
      await follow(project, command);
      await runs(expected, () => runTrial(node, ['trial.cjs'], { cwd: project.folder }));
      return `npm ${command}`;
    } finally {
      project.remove();
    }
  },
]);

/** Yarn 4 leaves optional packages out for what its settings say of the machine alone: as if node_modules came from another one. */
const foreign = '\nsupportedArchitectures:\n  os: [win32]\n  cpu: [x64]\n';

/** By name of the manager in the list: how it leaves the package out, and the program in the message. */
const others = {
  pnpm: { command: 'pnpm', omit: ['--no-optional'] },
  'Yarn 1': { command: 'yarn', omit: ['--ignore-optional'] },
  'Yarn 4, node_modules': { command: 'yarn', settings: foreign },
  "Yarn 4, Plug'n'Play": { command: 'yarn', settings: foreign },
  Bun: { command: 'bun', omit: ['--omit=optional'] },
};

/** The manager, leaving the package out. */
function omitting(manager, { omit = [], settings = '' }) {
  const files = settings ? { ...manager.files, '.yarnrc.yml': manager.files['.yarnrc.yml'] + settings } : manager.files;
  return { ...manager, files, args: (packages) => [...manager.args(packages), ...omit] };
}

const managerTrials = ({ registry, version, expected }) => managers(registry).filter(({ name }) => name in others).map((manager) => [
  `a missing package is mended: ${manager.name}`,
  async () => {
    const project = await installWith(omitting(manager, others[manager.name]), registry, [`webnn-node@${version}`]);
    try {
      for (const [file, text] of Object.entries(manager.files ?? {})) if (file !== 'yarn.lock') project.write(file, text);
      const message = await runIn(manager, project, ['trial.cjs'], fail);
      const command = commandIn(message, others[manager.name].command);
      const [program, ...first] = await manager.start();
      await succeed(program, [...first, ...command.split(' ')], { cwd: project.folder, env: cachesIn(project.folder) });
      await runs(expected, () => runIn(manager, project, ['trial.cjs']));
      return `${others[manager.name].command} ${command}`;
    } finally {
      project.remove();
    }
  },
]);

const versionTrial = ({ registry, version, expected, own }) => ['an addon of another version is mended', async () => {
  const project = new Project(registry);
  try {
    await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
    const modules = path.join(project.folder, 'node_modules');
    const other = renumberAddon(modules, own, version);
    // What npm remembers of node_modules.
    rmSync(path.join(modules, '.package-lock.json'));
    const message = await fail(node, ['trial.cjs'], { cwd: project.folder });
    for (const part of [version, other, `@webnn-node/${own}`]) if (!message.includes(part)) throw new Error(`the message does not name ${part}:\n${message}`);
    const command = /Run "npm (.*?)"/.exec(message)?.[1];
    if (!command) throw new Error(`the message names no command:\n${message}`);
    await follow(project, command);
    await runs(expected, () => runTrial(node, ['trial.cjs'], { cwd: project.folder }));
    return `npm ${command}`;
  } finally {
    project.remove();
  }
}];

/** What may have become of the addon's file, and how it is brought about. */
const damages = {
  'an addon without content': (file) => writeFileSync(file, ''),
  'an addon without its end': (file) => truncateSync(file, Math.floor(statSync(file).size / 2)),
  'an addon whose file was deleted': (file) => rmSync(file),
};

const damageTrials = ({ registry, version, expected, own }) => Object.entries(damages).map(([name, damage]) => [`${name} is mended`, async () => {
  const project = new Project(registry);
  try {
    await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
    damage(addonOf(path.join(project.folder, 'node_modules'), own));
    const message = await fail(node, ['trial.cjs'], { cwd: project.folder });
    if (!message.includes('Delete node_modules and install again.')) throw new Error(`the message does not say what to do:\n${message}`);
    rmSync(path.join(project.folder, 'node_modules'), { recursive: true });
    await project.npm('install');
    await runs(expected, () => runTrial(node, ['trial.cjs'], { cwd: project.folder }));
  } finally {
    project.remove();
  }
}]);

export const mendingTrials = (setting) => [
  ...npmTrials(setting),
  ...(setting.quick ? [] : managerTrials(setting)),
  versionTrial(setting),
  ...damageTrials(setting),
];
