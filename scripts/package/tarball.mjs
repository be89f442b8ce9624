// The files of a package's tarball, as npm writes it: gzip, ustar, everything below package/.
import { gunzipSync } from 'node:zlib';

const BLOCK = 512;
const FILE = ['0', '\0', ''];

/** @returns {Map<string, Buffer>} */
export function readTarball(bytes) {
  const tar = gunzipSync(bytes);
  const files = new Map();
  let longer;
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const text = (start, length) => tar.toString('utf8', at + start, at + start + length).replace(/\0.*$/s, '');
    const size = parseInt(text(124, 12), 8);
    const content = tar.subarray(at + BLOCK, at + BLOCK + size);
    const type = text(156, 1);
    // pax: a name that is too long for ustar stands in a record before the file.
    if (type === 'x') longer = /^\d+ path=(.*)$/m.exec(content.toString())?.[1];
    else if (FILE.includes(type)) {
      const prefix = text(345, 155);
      const name = longer ?? (prefix ? `${prefix}/${text(0, 100)}` : text(0, 100));
      files.set(name.replace(/^[^/]*\//, ''), content);
      longer = undefined;
    }
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}
