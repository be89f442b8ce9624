// Folders of the machine that builds, which have no place in what is published.
import { homedir } from 'node:os';
import path from 'node:path';
import { root } from '../repository.mjs';
import { must } from './command.mjs';

/** By what stands in their place in messages. Of folders inside each other the inner one is the later: rustc takes the last that fits. */
export async function ownPaths() {
  const home = homedir();
  const sysroot = (await must('rustc', ['--print', 'sysroot'])).trim();
  return { home, cargo: process.env.CARGO_HOME ?? path.join(home, '.cargo'), rust: sysroot, 'webnn-node': root };
}
