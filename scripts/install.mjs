// Installs what the lock file pins, once per lock file.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { stop } from './stop.mjs';

const lockFile = inRepository('package-lock.json');
export const STAMP = '.installed-lock';
const stamp = inRepository('node_modules', STAMP);

export async function installPackages() {
  // The published package has no lock file, and all that it needs is Node.
  if (!existsSync(lockFile)) return;
  const wanted = stampOf(lockFile);
  if (read(stamp) === wanted) return;

  console.error('webnn-node: installing the npm packages');
  const npm = npmCommand();
  const ended = await run(npm[0], [...npm.slice(1), 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    stdout: 'keep',
    stderr: 'keep',
  });
  if (ended.code !== 0) {
    process.stderr.write(ended.stdout + ended.stderr);
    stop('npm ci failed; its messages are above');
  }
  writeFileSync(stamp, wanted);
}

// The content is compared and not the time: git sets times as it likes.
export const stampOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

// Under `npm start` and the like npm says which file it is; this also avoids npm.cmd, which needs a shell on Windows.
export function npmCommand() {
  const script = process.env.npm_execpath;
  return script?.endsWith('.js') ? [process.execPath, script] : ['npm'];
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
