// Libraries of a Debian of any age, unpacked into a folder: of an old one, of musl, of another architecture.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { LeftOut, succeed } from './surroundings.mjs';

const names = { x64: 'amd64', arm64: 'arm64' };

/** @returns {Promise<string>} the folder; apt keeps what it knows of that Debian in a folder of its own */
export async function debianRoot(suite, architecture, packages) {
  const root = inRepository('target', 'install-trials', `debian-${suite}-${architecture}-${packages[0]}`);
  if (existsSync(path.join(root, 'complete'))) return root;
  rmSync(root, { recursive: true, force: true });
  const at = (...parts) => path.join(root, 'apt', ...parts);
  for (const folder of [at('lists', 'partial'), at('cache', 'archives', 'partial'), at('sources'), at('debs')]) mkdirSync(folder, { recursive: true });
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(at('sources', 'trial.sources'), `Types: deb\nURIs: http://deb.debian.org/debian\nSuites: ${suite}\nComponents: main\nSigned-By: ${keys}\n`);
  const settings = { 'Dir::Etc::sourcelist': '/dev/null', 'Dir::Etc::sourceparts': at('sources'), 'Dir::State::lists': at('lists'), 'Dir::Cache': at('cache') };
  const more = { 'APT::Architecture': names[architecture], 'APT::Architectures': names[architecture], 'Acquire::Languages': 'none', 'APT::Sandbox::User': 'root' };
  const options = Object.entries({ ...settings, ...more }).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  try {
    await succeed('apt-get', [...options, 'update'], { cwd: at('debs') });
    await succeed('apt-get', [...options, 'download', ...packages.map((name) => `${name}/${suite}`)], { cwd: at('debs') });
    for (const file of readdirSync(at('debs'))) await succeed('dpkg-deb', ['-x', at('debs', file), root]);
  } catch (error) {
    throw new LeftOut(`Debian ${suite}'s ${packages.join(', ')} cannot be had: ${error.message.split('\n')[0]}`);
  }
  rmSync(at(), { recursive: true });
  writeFileSync(path.join(root, 'complete'), '');
  return root;
}
