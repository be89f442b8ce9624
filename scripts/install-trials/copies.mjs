// Two copies, and two versions, in one process.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Project, succeed } from './surroundings.mjs';

const OTHER = '9.9.9';

export const addonOf = (modules, own) => path.join(modules, '@webnn-node', own, `webnn-node.${own}.node`);

/** Makes an addon one of another version: this one under another number of as many characters. @returns {string} that number */
export function renumberAddon(modules, own, version) {
  const addon = addonOf(modules, own);
  const bytes = readFileSync(addon);
  for (let at = bytes.indexOf(version); at >= 0; at = bytes.indexOf(version, at + 1)) bytes.write(OTHER, at, 'latin1');
  writeFileSync(addon, bytes);
  renumberFile(path.join(modules, '@webnn-node', own, 'package.json'), version);
  return OTHER;
}

function renumberFile(file, version) {
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(version, OTHER));
}

/** The same of the JavaScript and the addon. */
function renumber(modules, own, version) {
  renumberAddon(modules, own, version);
  for (const file of ['lib/version.js', 'package.json']) renumberFile(path.join(modules, 'webnn-node', file), version);
}

export const copyTrials = ({ registry, version, own }) => ['copies', 'versions'].map((kind) => [`two ${kind} in one process`, async () => {
  const project = new Project(registry);
  try {
    await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
    const other = path.join(project.folder, 'other', 'node_modules');
    cpSync(path.join(project.folder, 'node_modules'), other, { recursive: true });
    if (kind === 'versions') renumber(other, own, version);
    const printed = await succeed(process.execPath, ['copies.cjs'], { cwd: project.folder });
    if (printed !== '0,3') throw new Error(`it printed ${printed}`);
  } finally {
    project.remove();
  }
}]);
