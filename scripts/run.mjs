// Runs one command, and ends it if it hangs.
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
 * @param {{ cwd?: string, limitSeconds?: number, silenceSeconds?: number, stdout?: Output, stderr?: Output,
 *   env?: Record<string, string>, bare?: boolean, mark?: string, onLine?: (line: string) => void }} [options] `limitSeconds` limits the time that the
 *   command takes, `silenceSeconds` the time between two pieces of its output (of streams that are kept): a slow machine needs the latter.
 *   `bare`: the environment is `env` alone. `mark` stands in front of each line that is shown of a stream with 'both', for commands that
 *   run side by side
 * @returns {Promise<{ code: number | null, signal: string | null, error?: NodeJS.ErrnoException, timedOut: boolean, silent: boolean,
 *   stdout: string, stderr: string, seconds: number }>}
 * @typedef {'show' | 'keep' | 'both'} Output
 */
export function run(command, args, options = {}) {
  const { cwd = root, limitSeconds, silenceSeconds, stdout = 'show', stderr = 'show', env = {}, bare = false, mark, onLine } = options;
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

    const ended = { code: null, signal: null, timedOut: false, silent: false, stdout: '', stderr: '', seconds: 0 };
    const end = (why) => {
      ended[why] = true;
      killGroup(child);
    };
    const limit = limitSeconds && setTimeout(end, limitSeconds * 1000, 'timedOut');
    const silence = silenceSeconds && setTimeout(end, silenceSeconds * 1000, 'silent');
    const take = (name, how, takeLine) => {
      const inLines = byLines((line) => {
        takeLine?.(line);
        if (how === 'both' && mark) process[name].write(`${mark} | ${line}\n`);
      });
      child[name]?.setEncoding('utf8').on('data', (text) => {
        ended[name] += text;
        silence?.refresh();
        if (how === 'both' && !mark) process[name].write(text);
        inLines(text);
      });
      child[name]?.on('end', () => inLines(undefined));
    };
    take('stdout', stdout, onLine);
    take('stderr', stderr);

    const finish = (more) => {
      clearTimeout(limit);
      clearTimeout(silence);
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

/** Gives the lines of a text that comes in pieces, of which the last is undefined. */
function byLines(take) {
  let rest = '';
  return (text) => {
    const lines = (rest + (text ?? '')).split('\n');
    rest = lines.pop();
    lines.forEach(take);
    if (text === undefined && rest !== '') take(rest);
  };
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
