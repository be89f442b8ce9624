// Builds the native addon with plain cargo and puts it where lib/ looks for it.
import { copyFileSync, mkdirSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { stop } from './stop.mjs';

/**
 * The arguments for cargo that choose features. Cargo keeps what it compiled for each set of them, but only one addon: that is linked
 * again when the features change.
 */
export function withFeatures(features) {
  return features.length === 0 ? [] : ['--features', features.join()];
}

/** @param {{ features?: string[], folder?: string }} [options] another folder than that in which `lib/` looks */
export async function buildAddon({ features = [], folder = 'native' } = {}) {
  const library = await compile('webnn_node_addon', ['--package', 'webnn-node-addon', ...withFeatures(features)]);
  place(library, inRepository(folder, `webnn-node.${process.platform}-${process.arch}.node`));
}

/** The crate of packages/constrain, a workspace of its own. */
export const constrainManifest = inRepository('packages', 'constrain', 'crate', 'Cargo.toml');
/** Cargo compiles what it shares with the addon once: into the same folder. */
export const constrainEnv = { CARGO_TARGET_DIR: process.env.CARGO_TARGET_DIR ?? inRepository('target') };

/** Builds the native part of packages/constrain. */
export async function buildConstrain() {
  const library = await compile('webnn_constrain', ['--manifest-path', constrainManifest], constrainEnv);
  place(library, inRepository('packages', 'constrain', 'native', `webnn-constrain.${process.platform}-${process.arch}.node`));
}

function place(library, destination) {
  if (sameFile(library, destination)) return;
  mkdirSync(path.dirname(destination), { recursive: true });
  // A rename replaces the name and not the content: a process that has the old addon mapped is not disturbed.
  const temporary = `${destination}.${process.pid}`;
  copyFileSync(library, temporary);
  renameSync(temporary, destination);
}

// The path comes from cargo's own messages, because CARGO_TARGET_DIR and .cargo/config.toml can move it.
async function compile(name, args, env = {}) {
  let library;
  let crates = 0;
  const terminal = process.stderr.isTTY;
  // Nothing is said when there is nothing to do.
  const announced = setTimeout(() => say('building the native part in release mode; the first time takes minutes'), 1500);
  const ended = await run('cargo', ['build', '--release', '--locked', ...args, '--message-format=json-render-diagnostics'], {
    env,
    stdout: 'keep',
    stderr: 'keep',
    onLine(line) {
      if (!line.startsWith('{')) return;
      const message = JSON.parse(line);
      if (message.reason !== 'compiler-artifact') return;
      if (message.target.name === name && message.target.crate_types.includes('cdylib')) {
        library = message.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
      }
      if (!message.fresh && terminal) process.stderr.write(`\r  ${++crates} crates`);
    },
  });
  clearTimeout(announced);
  if (crates > 0) process.stderr.write('\r\x1b[K');
  if (ended.error?.code === 'ENOENT') {
    stop('cargo was not found; install Rust from https://rustup.rs and run this again');
  }
  if (ended.code !== 0 || library === undefined) {
    process.stderr.write(ended.stderr);
    stop("building the native part failed; cargo's messages are above");
  }
  if (ended.seconds > 1.5) say(`built in ${ended.seconds.toFixed(0)} s`);
  return library;
}

function say(message) {
  console.error(`webnn-node: ${message}`);
}

function sameFile(from, to) {
  const [a, b] = [from, to].map((file) => statSync(file, { throwIfNoEntry: false }));
  return b !== undefined && a.size === b.size && a.mtimeMs <= b.mtimeMs;
}
