// The tarballs that are tried: those of dist/, and what it lacks.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { dist, packAllJavaScript, packPlatform } from '../package/pack.mjs';
import { addonPart, builtFile, parts, tarballFile } from '../package/parts.mjs';
import { inRepository } from '../repository.mjs';
import { setUp } from '../setup.mjs';

/**
 * A copy of dist/, with the packages that it lacks made from what is built here. `published`: this machine's was in dist/.
 *
 * @param {{ own: string, version: string }} options `own` is the name of this machine's platform
 */
export async function collectTarballs({ own, version }) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-tarballs-'));
  const has = (part) => existsSync(path.join(dist, tarballFile(part, own, version)));
  if (existsSync(dist)) for (const file of readdirSync(dist).filter((name) => name.endsWith('.tgz'))) cpSync(path.join(dist, file), path.join(folder, file));
  // What is JavaScript is packed anew: it takes no time, and cannot be stale.
  await packAllJavaScript(folder);
  const missing = parts.filter((part) => !has(part));
  if (missing.length > 0) {
    await setUp();
    mkdirSync(inRepository('target', 'package'), { recursive: true });
    // Without Rust there may be no addon of packages/constrain.
    for (const part of missing.filter((one) => existsSync(builtFile(one)))) await packPlatform(own, part, builtFile(part), {}, folder);
  }
  return { folder, published: has(addonPart) };
}
