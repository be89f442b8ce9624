// Docker's image of Node.js as far as a Dockerfile sees it, where no registry of images can be reached: Debian by debootstrap, Node.js and npm by npm.
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { LeftOut, nodeOfVersion, succeed, tool } from '../install-trials/surroundings.mjs';
import { inRepository } from '../repository.mjs';

/** What Debian's slim images are without. */
const unneeded = ['usr/share/doc', 'usr/share/locale', 'usr/share/man', 'usr/share/info', 'var/cache/apt', 'var/lib/apt/lists'];

/** npm by the versions of Node.js that have it. */
const npms = { 20: '10', 22: '10', 24: '11' };

/**
 * @param {string} name such as `node:22-bookworm-slim`
 * @returns {Promise<string[]>} what `podman import` is told: the settings of the image, and its files
 */
export async function makeBase(name) {
  const [, version, suite] = /^node:(\d+)-(\w+)-slim$/.exec(name) ?? [];
  if (!(version in npms)) throw new Error(`no base is made in the place of ${name}`);
  const file = inRepository('target', 'serve', `base-${version}-${suite}-${process.arch}.tar`);
  if (!existsSync(file)) await pack(file, version, suite);
  return ['--change', 'CMD ["node"]', '--change', 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', file];
}

async function pack(file, version, suite) {
  const root = `${file}.root`;
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  try {
    await succeed('debootstrap', ['--variant=minbase', suite, root]);
  } catch (error) {
    throw new LeftOut(`Debian ${suite} cannot be had: ${error.message.split('\n')[0]}`);
  }
  for (const folder of unneeded) rmSync(path.join(root, folder), { recursive: true, force: true });
  const local = (...parts) => path.join(root, 'usr', 'local', ...parts);
  cpSync(await nodeOfVersion(version), local('bin', 'node'));
  cpSync(path.join(await tool(`npm@${npms[version]}`), 'npm'), local('lib', 'node_modules', 'npm'), { recursive: true });
  for (const name of ['npm', 'npx']) symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, local('bin', name));
  // Renamed when it is complete.
  await succeed('tar', ['--create', '--file', `${file}.part`, '--directory', root, '--numeric-owner', '.']);
  renameSync(`${file}.part`, file);
  rmSync(root, { recursive: true });
}
