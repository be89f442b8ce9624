// Links of Markdown in a package: to a file that is packed they stay; to another file of the repository they become links to its page,
// or plain text where no page is known.
import path from 'node:path';
import { ours, repository } from './description.mjs';

const link = /(!?)\[([^\]]*)\]\(([^)\s]+)\)/g;

/** @param {string[]} packed the files of the package, relative to the repository */
export function linksFor(packed) {
  const there = new Set(packed);
  const folders = new Set(packed.map((file) => path.posix.dirname(file)));
  return (file, text) => text.replace(link, (whole, picture, words, target) => {
    if (/^([a-z]+:|#)/.test(target)) return whole;
    const [name, anchor] = target.split('#');
    const destination = path.posix.normalize(path.posix.join(path.posix.dirname(file), name)).replace(/\/$/, '');
    if (there.has(destination) || folders.has(destination)) return whole;
    const url = repository();
    return url ? `${picture}[${words}](${url}/blob/v${ours().version}/${destination}${anchor ? `#${anchor}` : ''})` : words;
  });
}
