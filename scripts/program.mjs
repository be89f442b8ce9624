// Runs a program of this repository as if the user had started it: same terminal, same signals, same exit code.
import { spawn } from 'node:child_process';
import { inRepository } from './repository.mjs';

export function becomeProgram(file, args) {
  // The working folder stays the user's, or paths in the arguments would mean something else.
  const cwd = process.env.INIT_CWD ?? process.cwd();
  const child = spawn(process.execPath, [inRepository(file), ...args], { cwd, stdio: 'inherit' });
  // The terminal sends Ctrl-C to both; the other signals are passed on. This process outlives the program to report its code.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.removeAllListeners(signal);
    process.on(signal, () => signal !== 'SIGINT' && child.kill(signal));
  }
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 1;
    if (signal) console.error(`webnn-node: ${file} was ended by ${signal}`);
  });
}
