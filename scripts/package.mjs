// npm run package [-- linux-x64-gnu … javascript]: the packages that are published, as tarballs in dist/. Without names: those of JavaScript,
// and of each platform that this machine can build. `--complete` wants every platform's tarball to be there at the end.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { trouble } from './outcome.mjs';
import { checkAddon } from './package/check.mjs';
import { compileAddon } from './package/compile.mjs';
import { checkPackages } from './package/manifest.mjs';
import { writeNotices, writeSbom } from './package/notices.mjs';
import { dist, packAllJavaScript, packPlatform } from './package/pack.mjs';
import { parts } from './package/parts.mjs';
import { squeeze } from './package/squeeze.mjs';
import { buildable, targets } from './package/targets.mjs';
import { prepareTools } from './package/tools.mjs';
import { stop } from './stop.mjs';
import { Tally } from './tally.mjs';

const JAVASCRIPT = 'javascript';
const args = process.argv.slice(2);
const given = args.filter((arg) => !arg.startsWith('--'));
const unknown = given.filter((name) => name !== JAVASCRIPT && !(name in targets));
if (unknown.length > 0) stop(`there is no package for ${unknown.join(', ')}; there are ${[...Object.keys(targets), JAVASCRIPT].join(', ')}`);
const names = given.length > 0 ? given : [...buildable(), JAVASCRIPT];

mkdirSync(dist, { recursive: true });
const tally = new Tally();
for (const name of names) {
  if (name === JAVASCRIPT) await step(name, packJavaScriptPackages);
  else for (const part of parts) await step(`${name} of ${part.of}`, () => packageFor(name, part));
}
await step('versions and integrity', () => checkPackages({ complete: args.includes('--complete') }));
tally.finish();

async function step(name, work) {
  const start = performance.now();
  let note;
  try {
    note = await work();
  } catch (error) {
    const seconds = (performance.now() - start) / 1000;
    tally.add({ name, passed: 0, failed: 1, note: error.command ? trouble(error.command) : error.message, seconds });
    return;
  }
  tally.add({ name, passed: 1, failed: 0, note, seconds: (performance.now() - start) / 1000 });
}

async function packageFor(name, part) {
  await prepareTools(name);
  const addon = await compileAddon(name, part);
  const size = await checkAddon(name, part, addon);
  const papers = { notices: await writeNotices(name, part), sbom: await writeSbom(name, part) };
  const { filename } = await packPlatform(name, part, addon, papers);
  return `${megabytes(size)}, packed ${megabytes(await squeeze(path.join(dist, filename)))}`;
}

async function packJavaScriptPackages() {
  return (await packAllJavaScript()).map(({ size }) => megabytes(size)).join(', ');
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(2)} MB`;
}
