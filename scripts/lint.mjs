// npm run lint: every linter, each named, all of them run even if one objects.
import { existsSync } from 'node:fs';
import { constrainEnv, constrainManifest } from './addon.mjs';
import { trouble } from './outcome.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { setUp } from './setup.mjs';
import { Tally } from './tally.mjs';

const limit = 1800;
const folders = ['bin', 'lib', '__tests__', 'scripts', 'benches', 'examples', 'packages'].filter((name) => existsSync(inRepository(name)));
const portability = inRepository('tests', 'portability', 'Cargo.toml');
const eslint = inRepository('node_modules', 'eslint', 'bin', 'eslint.js');

const linters = {
  rustfmt: ['cargo', 'fmt', '--all', '--check'],
  // The release profile is the one that `npm run build` compiled the dependencies' build scripts in.
  clippy: ['cargo', 'clippy', '--release', '--workspace', '--all-targets', '--locked', '--quiet', '--', '-D', 'warnings'],
  // The crate of packages/constrain is a workspace of its own.
  'rustfmt, constrain': ['cargo', 'fmt', '--manifest-path', constrainManifest, '--check'],
  'clippy, constrain': ['cargo', 'clippy', '--release', '--manifest-path', constrainManifest, '--all-targets', '--locked', '--quiet', '--', '-D', 'warnings'],
  'rustfmt, portability': ['cargo', 'fmt', '--manifest-path', portability, '--check'],
  'clippy, portability': ['cargo', 'clippy', '--release', '--manifest-path', portability, '--target-dir', inRepository('target', 'portability'), '--locked', '--quiet', '--', '-D', 'warnings'],
  // Where cargo-deny is not installed its step says so.
  dependencies: ['cargo', 'deny', '--locked', 'check', 'licenses', 'bans', 'sources'],
  'dependencies, constrain': ['cargo', 'deny', '--manifest-path', constrainManifest, '--locked', 'check', '--config', inRepository('deny.toml'), 'licenses', 'bans', 'sources'],
  eslint: [process.execPath, eslint, '--max-warnings', '0', '--no-error-on-unmatched-pattern', ...folders],
  // Comments of the typings, and links between pages.
  docs: [process.execPath, inRepository('scripts', 'docs.mjs')],
};

await setUp({ addon: false });
const hasDeny = (await run('cargo', ['deny', '--version'], { limitSeconds: 60, stdout: 'keep', stderr: 'keep' })).code === 0;
const tally = new Tally();
for (const [name, [command, ...args]] of Object.entries(linters)) {
  console.log(`\n== ${name}`);
  if (name.startsWith('dependencies') && !hasDeny) {
    tally.add({ name, passed: 0, failed: 0, note: 'cargo-deny is not installed (cargo install --locked cargo-deny)' });
    continue;
  }
  const ended = await run(command, args, { limitSeconds: limit, ...(name.endsWith('constrain') && { env: constrainEnv }) });
  const note = trouble(ended, limit);
  tally.add({ name, passed: note ? 0 : 1, failed: note ? 1 : 0, note, seconds: ended.seconds });
}
tally.finish();
