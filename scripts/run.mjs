// Runs one command under a hard time limit.
import { spawn } from 'node:child_process';
import { root } from './repository.mjs';

const windows = process.platform === 'win32';

// The process groups that must not outlive this script.
const running = new Set();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    for (const child of running) killGroup(child);
    process.exit(1);
  });
}

/**
 * Runs `command` in `cwd`, by default the repository's root, and says how it ended. Nothing that it started is left behind.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, limitSeconds?: number, stdout?: 'show' | 'keep' | 'both', stderr?: 'show' | 'keep',
 *   env?: Record<string, string>, bare?: boolean, onLine?: (line: string) => void }} [options] `bare`: the environment is `env` alone
 * @returns {Promise<{ code: number | null, signal: string | null, error?: NodeJS.ErrnoException, timedOut: boolean,
 *   stdout: string, stderr: string, seconds: number }>}
 */
export function run(command, args, { cwd = root, limitSeconds, stdout = 'show', stderr = 'show', env = {}, bare = false, onLine } = {}) {
  return new Promise((resolve) => {
    const start = performance.now();
    const child = spawn(command, args, {
      cwd,
      env: bare ? env : { ...process.env, ...env },
      // A group of its own, so that the time limit reaches grandchildren: a hung test is one.
      detached: !windows,
      stdio: ['ignore', stdout === 'show' ? 'inherit' : 'pipe', stderr === 'show' ? 'inherit' : 'pipe'],
      windowsHide: true,
    });
    running.add(child);

    const ended = { code: null, signal: null, timedOut: false, stdout: '', stderr: '', seconds: 0 };
    let rest = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      ended.stdout += text;
      if (stdout === 'both') process.stdout.write(text);
      if (!onLine) return;
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      lines.forEach(onLine);
    });
    child.stderr?.setEncoding('utf8').on('data', (text) => (ended.stderr += text));

    const limit =
      limitSeconds &&
      setTimeout(() => {
        ended.timedOut = true;
        killGroup(child);
      }, limitSeconds * 1000);

    const finish = (more) => {
      clearTimeout(limit);
      running.delete(child);
      resolve({ ...ended, ...more, seconds: (performance.now() - start) / 1000 });
    };
    child.on('error', (error) => finish({ error }));
    child.on('exit', (code, signal) => {
      // What the command left behind would keep its end of the pipe open, and 'close' would never come.
      killGroup(child);
      ended.code = code;
      ended.signal = signal;
    });
    child.on('close', () => finish({}));
  });
}

function killGroup(child) {
  if (child.pid === undefined) return;
  try {
    if (windows) spawn('taskkill', ['/pid', String(child.pid), '/T', '/F'], { stdio: 'ignore' });
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The group has ended already.
  }
}
