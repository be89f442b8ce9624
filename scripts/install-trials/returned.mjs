// Whether memory is the system's again with the C library of a platform, as __tests__/returned.test.js asks of this one's.
import { cpSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { succeed } from './surroundings.mjs';

const { WIDTH, fourProducts } = createRequire(import.meta.url)('../../__tests__/onnx/four-products.js');

/** What resident memory may have grown to after a hundred models. What V8 keeps differs by as much from process to process, so the least counts. */
const MOST = 1.05;
const TRIES = 3;

/**
 * Models come and go in a program beside the installed package.
 * @param {{folder: string}} project
 * @param {string} command with these arguments, Node.js
 * @param {string[]} args
 */
export async function requireReturned(project, command, args) {
  const inPackage = path.join('node_modules', 'webnn-node', '__tests__');
  for (const file of ['processes/returned.js', 'processes/work.js', 'stress/resident.js']) {
    cpSync(inRepository('__tests__', file), path.join(project.folder, inPackage, file));
  }
  writeFileSync(path.join(project.folder, 'products.onnx'), fourProducts());
  const program = ['--expose-gc', path.join(inPackage, 'processes', 'returned.js'), 'cycles', 'products.onnx', `${WIDTH}`, '100'];
  const found = [];
  while (found.length < TRIES && !(Math.min(...found) < MOST)) {
    const { before, after } = JSON.parse(await succeed(command, [...args, ...program], { cwd: project.folder }));
    found.push(after / before);
  }
  if (!(Math.min(...found) < MOST)) throw new Error(`resident memory grew to ${found.map((ratio) => ratio.toFixed(3)).join(', ')} of what it was`);
}
