// A clone on a machine without Rust: npm start takes the addon of the published package, from dist/ or from the registry.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { STAMP, stampOf } from '../install.mjs';
import { root } from '../repository.mjs';
import { LeftOut, npm } from './surroundings.mjs';

/** The files that git knows, as they are here. What the lock file pins is said to be installed: the example needs nothing of it. */
function cloneTo(folder) {
  let files;
  try {
    files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).split('\0');
  } catch (error) {
    throw new LeftOut(`this is no clone: ${error.message.split('\n')[0]}`);
  }
  for (const file of files.filter((name) => name && existsSync(path.join(root, name)))) cpSync(path.join(root, file), path.join(folder, file));
  mkdirSync(path.join(folder, 'node_modules'));
  writeFileSync(path.join(folder, 'node_modules', STAMP), stampOf(path.join(folder, 'package-lock.json')));
}

export const cloneTrials = ({ registry, folder: tarballs, own, version }) => ['dist', 'the registry'].map((place) => [`npm start in a clone, from ${place}`, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-clone-'));
  try {
    cloneTo(folder);
    const tarball = `webnn-node-${own}-${version}.tgz`;
    mkdirSync(path.join(folder, 'dist'));
    if (place === 'dist') cpSync(path.join(tarballs, tarball), path.join(folder, 'dist', tarball));
    const settings = { npm_config_registry: place === 'dist' ? 'http://127.0.0.1:9/' : registry.url, npm_config_cache: path.join(folder, 'cache') };
    const printed = await npm(['start'], { cwd: folder, env: settings });
    if (!printed.includes('357 of 360')) throw new Error(`it printed ${printed}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}]);
