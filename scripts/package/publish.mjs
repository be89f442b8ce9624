// node scripts/package/publish.mjs [--dry-run]: publishes the tarballs that dist/packages.json lists, a package after those that it depends
// on. What the registry has is left out, so a release that stopped half-way is finished by running this again.
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCommand } from '../install.mjs';
import { run } from '../run.mjs';
import { must } from './command.mjs';
import { readJson } from './description.mjs';
import { dist } from './pack.mjs';
import { readTarball } from './tarball.mjs';

/** @param {{ name: string, needs: string[] }[]} packages @returns the same, in an order in which nothing is there before what it needs */
export function inOrder(packages) {
  const ordered = [];
  const add = (entry, path) => {
    if (path.includes(entry)) throw new Error(`packages depend on each other: ${[...path, entry].map(({ name }) => name).join(' → ')}`);
    if (ordered.includes(entry)) return;
    for (const needed of packages.filter(({ name }) => entry.needs.includes(name))) add(needed, [...path, entry]);
    ordered.push(entry);
  };
  for (const entry of packages) add(entry, []);
  return ordered;
}

/**
 * @param {{ name: string, version: string, file: string, integrity: string, needs: string[] }[]} packages
 * @param {{ integrityOf: (name: string, version: string) => Promise<string | undefined>, publish: (file: string) => Promise<unknown> }} registry
 */
export async function publishAll(packages, { integrityOf, publish, say = console.log }) {
  for (const { name, version, file, integrity } of inOrder(packages)) {
    const there = await integrityOf(name, version);
    // A package of JavaScript may be packed anew with another time in it: what is published stays.
    if (there !== undefined) {
      say(`${name}@${version} is published already${there === integrity ? '' : ', with other bytes'}`);
      continue;
    }
    await publish(file);
    say(`${name}@${version} is published`);
  }
}

/** What dist/packages.json lists, with what each needs of the others. */
export function listed(folder = dist) {
  return readJson(path.join(folder, 'packages.json')).map((entry) => {
    const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(readTarball(readFileSync(path.join(folder, entry.file))).get('package.json'));
    return { ...entry, needs: Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }) };
  });
}

function npmRegistry(more) {
  const [command, ...first] = npmCommand();
  return {
    async integrityOf(name, version) {
      const { code, stdout, stderr } = await run(command, [...first, 'view', `${name}@${version}`, 'dist.integrity'], { limitSeconds: 120, stdout: 'keep', stderr: 'keep' });
      if (code === 0) return stdout.trim() || undefined;
      if (/E404/.test(stderr)) return undefined;
      throw new Error(`npm view ${name}@${version} failed:\n${stderr}`);
    },
    publish: (file) => must(command, [...first, 'publish', path.join(dist, file), '--access', 'public', ...more], { show: true }),
  };
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const dry = process.argv.includes('--dry-run');
  await publishAll(listed(), npmRegistry(dry ? ['--dry-run'] : ['--provenance']));
}
