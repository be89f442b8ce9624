// A command that has to succeed, and gives what it prints.
import { trouble } from '../outcome.mjs';
import { run } from '../run.mjs';

export async function must(command, args, { cwd, env, limitSeconds = 3600, show = false } = {}) {
  const ended = await run(command, args, { cwd, env, limitSeconds, stdout: 'keep', stderr: show ? 'show' : 'keep' });
  const note = trouble(ended, limitSeconds);
  if (note) throw new Error(`${command} ${args.join(' ')}: ${note}\n${ended.stderr}`);
  return ended.stdout;
}

export async function succeeds(command, args, options = {}) {
  return trouble(await run(command, args, { limitSeconds: 300, stdout: 'keep', stderr: 'keep', ...options })) === '';
}
