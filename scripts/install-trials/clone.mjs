// A clone on a machine without Rust: npm start and npm test take the addon of the published package, from dist/ or from the registry.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { STAMP, stampOf } from '../install.mjs';
import { ours, readJson } from '../package/description.mjs';
import { parts, tarballFile } from '../package/parts.mjs';
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

/** A clone, with the tarballs of `dist` where it looks for them first. */
async function inClone({ folder: tarballs, own, version }, { dist }, work) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-clone-'));
  try {
    cloneTo(folder);
    mkdirSync(path.join(folder, 'dist'));
    const names = dist ? parts.map((part) => tarballFile(part, own, version)) : [];
    for (const tarball of names) cpSync(path.join(tarballs, tarball), path.join(folder, 'dist', tarball));
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const startTrials = (setting) => ['dist', 'the registry'].map((place) => [`npm start in a clone, from ${place}`, () => inClone(setting, { dist: place === 'dist' }, async (folder) => {
  const settings = { npm_config_registry: place === 'dist' ? 'http://127.0.0.1:9/' : setting.registry.url, npm_config_cache: path.join(folder, 'cache') };
  const printed = await npm(['start'], { cwd: folder, env: settings });
  if (!printed.includes('357 of 360')) throw new Error(`it printed ${printed}`);
})]);

/** What npm links in a clone. */
const packages = ['.', ...ours().workspaces];

/** Some of jest's files, and the steps after it. */
const testTrial = (setting) => ['npm test in a clone', () => inClone(setting, { dist: true }, async (folder) => {
  if (!existsSync(path.join(root, 'node_modules', 'jest'))) throw new LeftOut('npm ci has not been run in this clone');
  const linked = packages.map((file) => [readJson(path.join(folder, file, 'package.json')).name, path.join(folder, file)]);
  for (const name of readdirSync(path.join(root, 'node_modules')).filter((file) => ![STAMP, 'webnn-node', '@webnn-node'].includes(file))) {
    symlinkSync(path.join(root, 'node_modules', name), path.join(folder, 'node_modules', name));
  }
  mkdirSync(path.join(folder, 'node_modules', '@webnn-node'));
  for (const [name, place] of linked) symlinkSync(place, path.join(folder, 'node_modules', name));
  mkdirSync(path.join(folder, 'target'));
  const driver = path.join('target', 'swiftshader');
  if (existsSync(path.join(root, driver))) symlinkSync(path.join(root, driver), path.join(folder, driver));
  const printed = await npm(['test', '--', '__tests__/dispatch.test.js', '__tests__/loading.test.js', '__tests__/onnxruntime.test.js'], { cwd: folder });
  if (!printed.includes('cargo was not found')) throw new Error('it found Rust');
  const [sum] = /^\d+ passed, 0 failed$/m.exec(printed.split('\n').at(-1)) ?? [];
  if (sum === undefined) throw new Error(`it printed ${printed}`);
  return sum;
})];

export const cloneTrials = (setting) => [...startTrials(setting), ...(setting.quick ? [] : [testTrial(setting)])];
