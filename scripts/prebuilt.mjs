// The addon of a clone without Rust: that of this platform's package, from dist/ or from the registry, if it is of the same version.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { npmCommand } from './install.mjs';
import { trouble } from './outcome.mjs';
import { ours } from './package/description.mjs';
import { readTarball } from './package/tarball.mjs';
import { addonFile, packageOf } from './package/targets.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { stop } from './stop.mjs';

const { platform } = createRequire(import.meta.url)('../lib/addon/platform.js');

export async function takePrebuilt() {
  const { version } = ours();
  const destination = inRepository('native', `webnn-node.${process.platform}-${process.arch}.node`);
  if (process.env.WEBNN_NATIVE || versionOf(destination) === version) return;
  const { system, architecture, libc } = platform();
  const name = [system, architecture, ...(libc ? [libc] : [])].join('-');
  const addon = fromDist(name, version) ?? (await fromRegistry(name, version));
  if (addon === undefined) {
    stop(`cargo was not found, and there is no package ${packageOf(name)}@${version} to take the addon from; install Rust from https://rustup.rs and run this again`);
  }
  console.error(`webnn-node: without Rust, the addon is that of ${packageOf(name)}@${version}`);
  mkdirSync(path.dirname(destination), { recursive: true });
  writeFileSync(destination, addon);
}

/** In a process of its own: this one has to load what is written there afterwards. */
function versionOf(file) {
  if (!existsSync(file)) return undefined;
  try {
    return execFileSync(process.execPath, ['-p', `require(${JSON.stringify(file)}).version()`], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

const addonIn = (tarball, name) => readTarball(readFileSync(tarball)).get(addonFile(name));

function fromDist(name, version) {
  const file = inRepository('dist', `webnn-node-${name}-${version}.tgz`);
  return existsSync(file) ? addonIn(file, name) : undefined;
}

async function fromRegistry(name, version) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-prebuilt-'));
  const [command, ...first] = npmCommand();
  const args = [...first, 'pack', `${packageOf(name)}@${version}`, '--pack-destination', folder, '--ignore-scripts'];
  const ended = await run(command, args, { limitSeconds: 300, stdout: 'keep', stderr: 'keep' });
  const addon = trouble(ended) ? undefined : addonIn(path.join(folder, `webnn-node-${name}-${version}.tgz`), name);
  rmSync(folder, { recursive: true });
  return addon;
}
