// Holds the tarballs in dist/ against each other: one version, complete contents, sizes, and what registries will state of them.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { ours } from './description.mjs';
import { dist } from './pack.mjs';
import { readTarball } from './tarball.mjs';
import { parts } from './parts.mjs';
import { addonFile, platforms } from './targets.mjs';

const LARGEST = 8e6;

/** Writes dist/packages.json, with the size and the integrity of each. */
export function checkPackages({ complete }) {
  const { version } = ours();
  checkSources(version);
  const found = readdirSync(dist).filter((file) => file.endsWith('.tgz')).map((file) => checkTarball(file, version));
  const names = found.map(({ name }) => name);
  const missing = parts.flatMap(({ packageOf }) => Object.keys(platforms).map(packageOf)).filter((name) => !names.includes(name));
  if (complete && missing.length > 0) throw new Error(`there is no tarball of ${missing.join(', ')} in dist/`);
  writeFileSync(path.join(dist, 'packages.json'), `${JSON.stringify(found, null, 2)}\n`);
  return `${found.length} tarballs${missing.length > 0 ? `; not built here: ${missing.join(', ')}` : ''}`;
}

function checkSources(version) {
  const cargo = /^version = "(.*)"$/m;
  const places = { 'Cargo.toml': cargo, 'packages/constrain/crate/Cargo.toml': cargo, 'lib/version.js': /^module\.exports = '(.*)';$/m };
  for (const [file, pattern] of Object.entries(places)) {
    const found = pattern.exec(readFileSync(inRepository(file), 'utf8'))?.[1];
    if (found !== version) throw new Error(`package.json has version ${version}, ${file} has ${found}`);
  }
}

function checkTarball(file, version) {
  const bytes = readFileSync(path.join(dist, file));
  const files = readTarball(bytes);
  const description = JSON.parse(files.get('package.json'));
  const { name, scripts = {}, optionalDependencies = {} } = description;
  if (bytes.length > LARGEST) throw new Error(`${file} has ${bytes.length} bytes, more than ${LARGEST}`);
  if (Object.keys(scripts).length > 0) throw new Error(`${file} has scripts: ${Object.keys(scripts).join(', ')}`);
  for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) if (!files.has(licence)) throw new Error(`${file} lacks ${licence}`);
  const [known] = parts.flatMap((part) => Object.keys(platforms).map((platform) => ({ part, platform }))).filter(({ part, platform }) => part.packageOf(platform) === name);
  if (known !== undefined) checkPlatform(file, files, description, known);
  if (name === ours().name || known !== undefined) {
    if (description.version !== version) throw new Error(`${file} has version ${description.version}, not ${version}: remove it from dist/`);
    if (!files.has('sbom.cdx.json')) throw new Error(`${file} lacks sbom.cdx.json`);
  }
  for (const [other, wanted] of Object.entries(optionalDependencies)) {
    if (wanted !== version) throw new Error(`${file} wants ${other} ${wanted}, not ${version}`);
  }
  const unpacked = [...files.values()].reduce((sum, content) => sum + content.length, 0);
  const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
  return { name, version: description.version, file, size: bytes.length, unpacked, files: files.size, integrity };
}

function checkPlatform(file, files, { os, cpu, libc, main }, { part, platform }) {
  const wanted = platforms[platform];
  if (`${os} ${cpu} ${libc}` !== `${wanted.os} ${wanted.cpu} ${wanted.libc}`) throw new Error(`${file} is for ${os} ${cpu} ${libc}`);
  if (main !== addonFile(platform, part) || !files.has(main)) throw new Error(`${file} lacks ${main}`);
  if (!files.has('THIRD-PARTY-NOTICES')) throw new Error(`${file} lacks THIRD-PARTY-NOTICES`);
}
