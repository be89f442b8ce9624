// Makes a tarball smaller: the same files, by zopfli, which looks for the shortest gzip for longer than npm does.
import { readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { must } from './command.mjs';
import { python, withTools } from './tools.mjs';

const program = `
import gzip, sys, zopfli.gzip
with open(sys.argv[1], 'rb') as file: content = gzip.decompress(file.read())
with open(sys.argv[2], 'wb') as file: file.write(zopfli.gzip.compress(content, numiterations=1))
`;

/** @returns {Promise<number>} the size of the file, whose content is what it was */
export async function squeeze(file) {
  const smaller = `${file}.smaller`;
  try {
    await must(python, ['-c', program, file, smaller], { env: withTools() });
    const [before, after] = [file, smaller].map((name) => gunzipSync(readFileSync(name)));
    if (!before.equals(after)) throw new Error(`${file} has other content after zopfli`);
    if (statSync(smaller).size < statSync(file).size) renameSync(smaller, file);
  } finally {
    rmSync(smaller, { force: true });
  }
  return statSync(file).size;
}
