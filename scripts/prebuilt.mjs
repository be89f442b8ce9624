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
import { addonPart, builtFile, parts, tarballFile } from './package/parts.mjs';
import { addonFile } from './package/targets.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { stop } from './stop.mjs';

const { platform } = createRequire(import.meta.url)('../lib/addon/platform.js');

export async function takePrebuilt() {
  if (process.env.WEBNN_NATIVE) return;
  for (const part of parts) await takePart(part);
}

async function takePart(part) {
  const { version } = ours();
  const destination = builtFile(part);
  if (versionOf(destination) === version) return;
  const { system, architecture, libc } = platform();
  const name = [system, architecture, ...(libc ? [libc] : [])].join('-');
  const addon = fromDist(part, name, version) ?? (await fromRegistry(part, name, version));
  if (addon === undefined && part !== addonPart) {
    console.error(`webnn-node: there is no package ${part.packageOf(name)}@${version}: ${part.of} cannot be used`);
    return;
  }
  if (addon === undefined) {
    stop(`cargo was not found, and there is no package ${part.packageOf(name)}@${version} to take the addon from; install Rust from https://rustup.rs and run this again`);
  }
  console.error(`webnn-node: without Rust, the addon is that of ${part.packageOf(name)}@${version}`);
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

const addonIn = (tarball, file) => readTarball(readFileSync(tarball)).get(file);

function fromDist(part, name, version) {
  const file = inRepository('dist', tarballFile(part, name, version));
  return existsSync(file) ? addonIn(file, addonFile(name, part)) : undefined;
}

async function fromRegistry(part, name, version) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-prebuilt-'));
  const [command, ...first] = npmCommand();
  const args = [...first, 'pack', `${part.packageOf(name)}@${version}`, '--pack-destination', folder, '--ignore-scripts'];
  const ended = await run(command, args, { limitSeconds: 300, stdout: 'keep', stderr: 'keep' });
  const addon = trouble(ended) ? undefined : addonIn(path.join(folder, tarballFile(part, name, version)), addonFile(name, part));
  rmSync(folder, { recursive: true });
  return addon;
}
