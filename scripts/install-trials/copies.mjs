// Two copies, and two versions, in one process.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Project, succeed } from './surroundings.mjs';

const OTHER = '9.9.9';

/** Another version is this one under another number of as many characters, in the JavaScript and in the addon. */
function renumber(modules, own, version) {
  const addon = path.join(modules, '@webnn-node', own, `webnn-node.${own}.node`);
  const bytes = readFileSync(addon);
  for (let at = bytes.indexOf(version); at >= 0; at = bytes.indexOf(version, at + 1)) bytes.write(OTHER, at, 'latin1');
  writeFileSync(addon, bytes);
  for (const file of [path.join(modules, 'webnn-node', 'lib', 'version.js'), path.join(modules, 'webnn-node', 'package.json'), path.join(modules, '@webnn-node', own, 'package.json')]) {
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(version, OTHER));
  }
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
