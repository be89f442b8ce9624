// Lays a package's files together, and has npm pack them.
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { npmCommand } from '../install.mjs';
import { inRepository } from '../repository.mjs';
import { must } from './command.mjs';
import { common, ours, readJson } from './description.mjs';
import { linksFor } from './links.mjs';
import { writePackageSbom } from './notices.mjs';
import { addonPart, constrainPart } from './parts.mjs';
import { addonFile, platforms } from './targets.mjs';

export const dist = inRepository('dist');
const contents = inRepository('target', 'package', 'contents');
const licences = ['LICENSE-APACHE', 'LICENSE-MIT'];

/** @param {{ notices?: string, sbom?: string }} papers that what is tried and not published goes without */
export async function packPlatform(name, part, addon, { notices, sbom } = {}, destination = dist) {
  const { os, cpu, libc } = platforms[name];
  const folder = emptyFolder(path.join(part.file, name));
  const what = `The native addon of ${part.of} for ${os} ${cpu}${libc ? ` with ${libc}` : ''}`;
  copyFileSync(addon, path.join(folder, addonFile(name, part)));
  if (notices) copyFileSync(notices, path.join(folder, 'THIRD-PARTY-NOTICES'));
  if (sbom) copyFileSync(sbom, path.join(folder, 'sbom.cdx.json'));
  copyLicences(folder);
  writeFileSync(path.join(folder, 'README.md'), `# ${part.packageOf(name)}\n\n${what}. Install ${part.of}, which depends on it.\n`);
  const description = { name: part.packageOf(name), description: what, ...common() };
  const where = { os: [os], cpu: [cpu], ...(libc ? { libc: [libc] } : {}), main: addonFile(name, part), preferUnplugged: true };
  writeJson(path.join(folder, 'package.json'), { ...description, ...where });
  return pack(folder, destination);
}

/** The packages without an addon: webnn-node, and those of packages/. @returns {Promise<{ name: string, filename: string, size: number }[]>} */
export async function packAllJavaScript(destination = dist) {
  const packed = [];
  for (const pack of [packJavaScript, packOverride, packServe, packConstrain]) packed.push(await pack(destination));
  return packed;
}

/** What package.json's `files` lists, and a package.json without what only a clone wants. */
export async function packJavaScript(destination = dist) {
  const folder = emptyFolder('javascript');
  const listed = Object.values(JSON.parse(await npm(['pack', '--dry-run', '--json', '--ignore-scripts'])))[0].files.map(({ path: file }) => file);
  const rewrite = linksFor(listed);
  for (const file of listed) {
    if (file === 'package.json') continue;
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    if (file.endsWith('.md')) writeFileSync(path.join(folder, file), rewrite(file, readFileSync(inRepository(file), 'utf8')));
    else copyFileSync(inRepository(file), path.join(folder, file));
  }
  writeFileSync(path.join(folder, 'sbom.cdx.json'), await writePackageSbom());
  // Left out: what works on a clone.
  const { devDependencies, overrides, scripts, workspaces, '//overrides': reason, ...rest } = ours();
  void [devDependencies, overrides, scripts, workspaces, reason];
  writeJson(path.join(folder, 'package.json'), { ...rest, ...common(), ...addonsOf(addonPart), files: [...rest.files, 'sbom.cdx.json'] });
  return pack(folder, destination);
}

/** What stands in for onnxruntime-node has its version, and wants this version of ours. */
export async function packOverride(destination = dist) {
  const folder = emptyFolder('onnxruntime');
  const source = inRepository('packages', 'onnxruntime-node');
  const description = readJson(path.join(source, 'package.json'));
  for (const file of description.files) copyFileSync(path.join(source, file), path.join(folder, file));
  copyLicences(folder);
  const rewrite = linksFor([]);
  writeFileSync(path.join(folder, 'README.md'), rewrite('packages/onnxruntime-node/README.md', readFileSync(path.join(source, 'README.md'), 'utf8')));
  const { version, ...rest } = common();
  const dependencies = { ...description.dependencies, 'webnn-node': `^${version}` };
  writeJson(path.join(folder, 'package.json'), { ...description, ...rest, dependencies, files: [...description.files, ...licences] });
  return pack(folder, destination);
}

/** The server. */
export const packServe = (destination = dist) => packBeside('serve', {}, destination);

/** What holds text to a schema, with the packages of its addon. */
export const packConstrain = (destination = dist) => packBeside('constrain', addonsOf(constrainPart), destination);

/** A package of packages/ that wants this version of ours. */
async function packBeside(name, more, destination) {
  const folder = emptyFolder(name);
  const source = inRepository('packages', name);
  const { devDependencies, ...description } = readJson(path.join(source, 'package.json'));
  void devDependencies;
  for (const file of description.files) cpSync(path.join(source, file), path.join(folder, file), { recursive: true });
  copyLicences(folder);
  writeFileSync(path.join(folder, 'README.md'), linksFor([])(`packages/${name}/README.md`, readFileSync(path.join(source, 'README.md'), 'utf8')));
  const { version } = common();
  const peerDependencies = { ...description.peerDependencies, 'webnn-node': `^${version}` };
  writeJson(path.join(folder, 'package.json'), { ...description, ...common(), peerDependencies, ...more, files: [...description.files, ...licences] });
  return pack(folder, destination);
}

/** The packages of a part, of which package managers install the one that fits. */
export function addonsOf(part) {
  const { version } = common();
  return { optionalDependencies: Object.fromEntries(Object.keys(platforms).map((name) => [part.packageOf(name), version])) };
}

function emptyFolder(name) {
  const folder = path.join(contents, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

function copyLicences(folder) {
  for (const file of licences) copyFileSync(inRepository(file), path.join(folder, file));
}

const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

function npm(args) {
  const [command, ...first] = npmCommand();
  return must(command, [...first, ...args]);
}

async function pack(folder, destination) {
  mkdirSync(destination, { recursive: true });
  const [packed] = Object.values(JSON.parse(await npm(['pack', folder, '--json', '--ignore-scripts', '--pack-destination', destination])));
  return packed;
}
