// npm run test:nodes [-- 22 24] [-- 26 litert]: jest and vitest on other versions of Node.js, with the addon as it was built; where
// names are given, only the files of jest's that have them. The versions come from npm, into a folder that is removed again: about
// 50 MB each, too much for everybody's node_modules.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { npmCommand } from './install.mjs';
import { trouble } from './outcome.mjs';
import { run } from './run.mjs';
import { setUp } from './setup.mjs';
import { Tally } from './tally.mjs';
import { testJavaScript } from './test-javascript.mjs';
import { testVitest } from './test-vitest.mjs';

const isVersion = (arg) => /^\d+(\.\d+){0,2}$/.test(arg);
const given = process.argv.slice(2).filter(isVersion);
const names = process.argv.slice(2).filter((arg) => !isVersion(arg));
const versions = given.length > 0 ? given : ['20', '22', '24', '26'];
const installLimit = 300;

await setUp();
const tally = new Tally();
for (const version of versions) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-version-'));
  try {
    await testVersion(version, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
tally.finish();

async function testVersion(version, folder) {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const npm = npmCommand();
  const options = ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];
  const installed = await run(npm[0], [...npm.slice(1), ...options, `${name}@${version}`], { limitSeconds: installLimit, stdout: 'keep' });
  const note = trouble(installed, installLimit);
  if (note) {
    tally.add({ name: `installing Node.js ${version}`, passed: 0, failed: 1, note, seconds: installed.seconds });
    return;
  }
  const program = process.platform === 'win32' ? 'node.exe' : 'node';
  const node = path.join(folder, 'node_modules', name, 'bin', program);
  await testJavaScript(tally, names, { name: `jest on Node.js ${version}`, node });
  if (names.length === 0) await testVitest(tally, { name: `vitest on Node.js ${version}`, node });
}
