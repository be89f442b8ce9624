// No network: the only sockets of a process that computes are those of its event loop.
import { cpSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { LeftOut, succeed, tool } from './surroundings.mjs';

/** What opens a socket, or asks for a name. The event loop's wake-ups are pipes, or pairs of sockets without an address. */
const any = /\b(socket|connect|bind|listen|sendto|sendmsg|recvfrom|accept4?)\(/;
/** GPU drivers ask daemons of the same machine, such as nscd and a display. */
const distant = /\bsocket\((?!AF_UNIX\b)/;

const bin = path.join('node_modules', 'webnn-node', 'bin', 'webnn-node.js');
const programs = [
  [['trial.cjs'], any],
  [['worker.cjs'], any],
  [['paths.cjs'], any],
  [[bin, 'inspect', 'model.onnx'], any],
  [['gpu.cjs'], distant],
  [[bin, 'devices'], distant],
];

export const networkTrials = ({ project }) => [['no network, by strace', async () => {
  if (process.platform !== 'linux') throw new LeftOut('strace is for Linux');
  const log = path.join(project.folder, 'strace.log');
  try {
    await succeed('strace', ['-V']);
  } catch {
    throw new LeftOut('strace was not found');
  }
  // onnxruntime-node's interface wants it: those who use it have it.
  const common = path.join(project.folder, 'node_modules', 'onnxruntime-common');
  cpSync(path.join(await tool('onnxruntime-common'), 'onnxruntime-common'), common, { recursive: true });
  let gpu;
  for (const [program, calls] of programs) {
    const printed = await succeed('strace', ['-f', '-qq', '-e', 'trace=network', '-o', log, process.execPath, ...program], { cwd: project.folder });
    const found = readFileSync(log, 'utf8').split('\n').filter((line) => calls.test(line));
    if (found.length > 0) throw new Error(`${program.join(' ')} opens sockets:\n${found.join('\n')}`);
    if (program[0] === 'gpu.cjs') gpu = printed;
  }
  rmSync(common, { recursive: true });
  return `a program, a model, text, workers, a cache, onnxruntime's interface, the command line; ${gpu === 'no GPU' ? 'there is no GPU' : 'a GPU'}`;
}]];
