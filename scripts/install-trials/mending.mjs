// Where the platform's package is missing, the message names commands; following them works.
import path from 'node:path';
import { runTrial } from './runtimes.mjs';
import { Project, fail, npm } from './surroundings.mjs';

const node = process.execPath;

/** How the package comes to be missing. */
const ways = {
  '--omit=optional': (project, name) => project.npm('install', '--ignore-scripts', '--omit=optional', name),
  'node_modules of another platform': (project, name) => project.npm('install', '--ignore-scripts', '--os=win32', '--cpu=x64', name),
};

export const mendingTrials = ({ registry, version, expected, own }) => Object.entries(ways).map(([name, install]) => [
  `a missing package is mended: ${name}`,
  async () => {
    const project = new Project(registry);
    try {
      await install(project, `webnn-node@${version}`);
      const message = await fail(node, ['trial.cjs'], { cwd: project.folder });
      for (const part of [`@webnn-node/${own}`, path.join(project.folder, 'node_modules')]) {
        if (!message.includes(part)) throw new Error(`the message does not name ${part}:\n${message}`);
      }
      const command = /^ {2}npm (install .*)$/m.exec(message)?.[1];
      if (!command) throw new Error(`the message names no command of npm:\n${message}`);
      await npm(command.split(' '), { cwd: project.folder });
      const printed = await runTrial(node, ['trial.cjs'], { cwd: project.folder });
      if (printed !== expected) throw new Error(`it computes ${printed}`);
      return `npm ${command}`;
    } finally {
      project.remove();
    }
  },
]);
