// Windows, by Wine, with the node.exe of npm's package.
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { requireZig, withTools } from '../package/tools.mjs';
import { inRepository } from '../repository.mjs';
import { findWine } from '../wine.mjs';
import { runTrial } from './runtimes.mjs';
import { LeftOut, nodeOfVersion, succeed } from './surroundings.mjs';
import { installFor } from './systems.mjs';

const kept = inRepository('target', 'install-trials');
const libraries = ['/usr/lib/x86_64-linux-gnu/wine', '/usr/lib/wine'].map((folder) => path.join(folder, 'x86_64-windows'));

/** Rust's standard library wants a library that Wine has from version 9 on. Before, a stand-in lies beside the addon. */
async function completeWine(folder) {
  const name = 'bcryptprimitives.dll';
  if (libraries.some((library) => existsSync(path.join(library, name)))) return;
  const zig = await requireZig().catch((error) => {
    throw new LeftOut(`this Wine has no ${name}, and zig, which would compile a stand-in, cannot be installed: ${error.message.split('\n')[0]}`);
  });
  const [command, ...first] = zig;
  const source = inRepository('scripts', 'install-trials', 'process-prng.c');
  const args = ['cc', '-target', 'x86_64-windows-gnu', '-shared', '-s', '-o', path.join(folder, name), source, '-ladvapi32'];
  await succeed(command, [...first, ...args], { env: withTools() });
}

/** Node.js under Wine cannot write to a pipe, so it writes to files. */
const toFiles = '"$@" > printed.txt 2> said.txt < /dev/null || { cat printed.txt said.txt >&2; exit 1; }; cat printed.txt';

export const windowsTrials = (setting) => (setting.quick || process.platform !== 'linux' ? [] : [['on win32-x64, under Wine', async () => {
  const wine = findWine();
  if (wine === undefined) throw new LeftOut('wine64 was not found (Debian: wine64)');
  const project = await installFor('win32-x64', setting);
  try {
    await completeWine(path.join(project.folder, 'node_modules', '@webnn-node', 'win32-x64'));
    mkdirSync(kept, { recursive: true });
    const program = await nodeOfVersion('20', 'win', 'x64');
    // Wine says that it is an older Windows than Node.js wants.
    const env = { WINEPREFIX: path.join(kept, 'wine'), WINEDEBUG: '-all', NODE_SKIP_PLATFORM_CHECK: '1' };
    const options = { cwd: project.folder, env };
    const start = ['-c', toFiles, 'sh', wine, program];
    const printed = await runTrial('sh', [...start, 'trial.cjs'], options);
    if (JSON.parse(printed.split('\n').at(-1)).ids.join() !== JSON.parse(setting.expected).ids.join()) throw new Error(`it computes ${printed}`);
    for (const file of ['alive.cjs', 'worker.cjs']) await succeed('sh', [...start, file], options);
  } finally {
    project.remove();
  }
}]]);
