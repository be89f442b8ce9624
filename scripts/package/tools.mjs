// What compiles for other platforms: rustup's standard libraries, and zig, whose C compiler links for each of them with nothing else
// installed. It and cargo-zigbuild come from PyPI into a folder of their own unless they are there.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { must, succeeds } from './command.mjs';
import { targets } from './targets.mjs';

const packages = ['cargo-zigbuild==0.24.1', 'ziglang==0.17.1'];
const folder = inRepository('target', 'package', 'python');
const programs = path.join(folder, process.platform === 'win32' ? 'Scripts' : 'bin');

/** The environment in which cargo finds zig. */
export const withTools = () => ({ PATH: [programs, process.env.PATH].join(path.delimiter) });

export async function prepareTools(name) {
  const { triple, zig } = targets[name];
  await addTarget(triple);
  if (zig !== undefined) await installZig();
}

async function addTarget(triple) {
  if (!(await succeeds('rustup', ['--version']))) return; // Another Rust: cargo says what it lacks.
  const installed = await must('rustup', ['target', 'list', '--installed']);
  if (installed.split(/\s+/).includes(triple)) return;
  if (await succeeds('rustup', ['target', 'add', triple])) return;
  throw new Error(`rustup has no standard library for ${triple} here (rustup target add ${triple}): its package cannot be built`);
}

async function installZig() {
  const env = withTools();
  if ((await succeeds('cargo-zigbuild', ['--version'], { env })) && (await succeeds('cargo-zigbuild', ['zig', 'version'], { env }))) return;
  if (!existsSync(programs)) await must('python3', ['-m', 'venv', folder]);
  await must(path.join(programs, 'pip'), ['install', '--quiet', '--disable-pip-version-check', ...packages]);
}
