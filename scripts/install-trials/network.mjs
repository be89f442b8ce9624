// No network: the only sockets of a process that computes are those of its event loop.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { LeftOut, succeed } from './surroundings.mjs';

/** What opens a socket, or asks for a name. The event loop's wake-ups are pipes, or pairs of sockets without an address. */
const calls = /\b(socket|connect|bind|listen|sendto|sendmsg|recvfrom|accept4?)\((.*)/;

export const networkTrials = ({ project }) => [['no network, by strace', async () => {
  if (process.platform !== 'linux') throw new LeftOut('strace is for Linux');
  const log = path.join(project.folder, 'strace.log');
  try {
    await succeed('strace', ['-V']);
  } catch {
    throw new LeftOut('strace was not found');
  }
  for (const program of ['trial.cjs', 'worker.cjs']) {
    await succeed('strace', ['-f', '-qq', '-e', 'trace=network', '-o', log, process.execPath, program], { cwd: project.folder });
    const found = readFileSync(log, 'utf8').split('\n').filter((line) => calls.test(line));
    if (found.length > 0) throw new Error(`${program} opens sockets:\n${found.join('\n')}`);
  }
  return 'a program, a model, text, workers';
}]];
