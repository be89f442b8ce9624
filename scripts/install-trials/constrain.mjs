// The package that holds text to a schema, from the tarballs: its own addon is installed, and generate() finds it.
import { createRequire } from 'node:module';
import path from 'node:path';
import { constrainPart } from '../package/parts.mjs';
import { startRegistry } from './registry.mjs';
import { LeftOut, Project, npm, succeed } from './surroundings.mjs';

const { END, writeChat } = createRequire(import.meta.url)('../../__tests__/serve/openai/folders.js');

export const constrainTrials = ({ folder, version, own, registry: built }) => [['@webnn-node/constrain', async () => {
  if (!built.has(constrainPart.packageOf(own))) throw new LeftOut('there is no package of its addon');
  const registry = await startRegistry(folder, { upstream: (await npm(['config', 'get', 'registry'])).trim() });
  const project = new Project(registry);
  try {
    await project.npm('install', '--ignore-scripts', `webnn-node@${version}`, `@webnn-node/constrain@${version}`);
    writeChat(path.join(project.folder, 'chat'), { A: ['x', END] });
    const printed = await succeed(process.execPath, ['constrain.cjs'], { cwd: project.folder });
    if (!['true', 'false'].includes(printed)) throw new Error(`the text is ${printed}`);
    return printed;
  } finally {
    registry.close();
    project.remove();
  }
}]];
