'use strict';

// What the release workflow publishes: every package, after those that it depends on, once.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const root = path.join(__dirname, '..');
const script = (name) => JSON.stringify(pathToFileURL(path.join(root, 'scripts', 'package', name)).href);
const evaluate = (program, cwd = root) => execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd, encoding: 'utf8' });

test('every package of the repository is packed, without scripts', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-publishing-'));
  try {
    const packed = JSON.parse(evaluate(`
      import { packAllJavaScript } from ${script('pack.mjs')};
      import { readTarball } from ${script('tarball.mjs')};
      import fs from 'node:fs';
      const packed = await packAllJavaScript(process.cwd());
      console.log(JSON.stringify(packed.map(({ filename }) => JSON.parse(readTarball(fs.readFileSync(filename)).get('package.json')))));`, folder));
    const sources = fs.readdirSync(path.join(root, 'packages')).map((name) => path.join(root, 'packages', name, 'package.json'));
    const names = sources.filter((file) => fs.existsSync(file)).map((file) => require(file).name);
    expect(packed.map(({ name }) => name).sort()).toEqual(['webnn-node', ...names].sort());
    for (const { scripts, devDependencies, publishConfig } of packed) expect({ scripts, devDependencies, publishConfig }).toEqual({ publishConfig: { access: 'public' } });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}, 60_000);

const needs = {
  '@webnn-node/serve': ['webnn-node', 'fastify'],
  'webnn-node': ['@webnn-node/linux-x64-gnu', '@webnn-node/darwin-arm64'],
  '@webnn-node/linux-x64-gnu': [],
  '@webnn-node/darwin-arm64': [],
};
const packages = Object.entries(needs).map(([name, others]) => ({ name, version: '1.0.0', file: `${name}.tgz`, integrity: `of ${name}`, needs: others }));

/** Publishes the packages above on a registry that has some already. */
function publish(there, failing) {
  return evaluate(`
    import { publishAll } from ${script('publish.mjs')};
    const there = ${JSON.stringify(there)};
    await publishAll(${JSON.stringify(packages)}, {
      integrityOf: async (name) => there[name],
      publish: async (file) => { if (file === ${JSON.stringify(failing ?? '')}) throw new Error('the registry is down'); console.log('npm publish ' + file); },
      say: () => {},
    }).catch(({ message }) => console.log(message));`).trim().split('\n');
}

test('the addon of packages/constrain has a package for each platform, whose name is written out for bundlers', () => {
  const { platforms } = require('../lib/addon/packages.js');
  const { optionalDependencies } = JSON.parse(evaluate(`
    import { constrainPart } from ${script('parts.mjs')};
    import { addonsOf } from ${script('pack.mjs')};
    console.log(JSON.stringify(addonsOf(constrainPart)));`));
  expect(Object.keys(optionalDependencies)).toEqual(Object.keys(platforms).map((name) => `@webnn-node/constrain-${name}`));
  const text = fs.readFileSync(path.join(root, 'packages', 'constrain', 'lib', 'native.js'), 'utf8');
  for (const name of Object.keys(optionalDependencies)) expect(text).toContain(`require('${name}')`);
});

test('a package is published after those that it depends on', () => {
  expect(publish({})).toEqual(['@webnn-node/linux-x64-gnu', '@webnn-node/darwin-arm64', 'webnn-node', '@webnn-node/serve'].map((name) => `npm publish ${name}.tgz`));
});

test('a release that stopped half-way is finished by the next run', () => {
  expect(publish({}, 'webnn-node.tgz')).toEqual(['npm publish @webnn-node/linux-x64-gnu.tgz', 'npm publish @webnn-node/darwin-arm64.tgz', 'the registry is down']);
  const there = { '@webnn-node/linux-x64-gnu': 'of @webnn-node/linux-x64-gnu', '@webnn-node/darwin-arm64': 'of another build' };
  expect(publish(there)).toEqual(['npm publish webnn-node.tgz', 'npm publish @webnn-node/serve.tgz']);
});

test('packages that depend on each other are refused', () => {
  const circle = [{ name: 'a', needs: ['b'] }, { name: 'b', needs: ['a'] }];
  const message = evaluate(`
    import { inOrder } from ${script('publish.mjs')};
    try { inOrder(${JSON.stringify(circle)}); } catch ({ message }) { console.log(message); }`);
  expect(message).toBe('packages depend on each other: a → b → a\n');
});

test('the workflow publishes by that script, what it has built for every platform, with provenance', () => {
  const workflow = fs.readFileSync(path.join(root, '.github', 'workflows', 'release.yml'), 'utf8');
  const { platforms } = require('../lib/addon/packages.js');
  const built = [...workflow.matchAll(/^ +packages: (.*)$/gm)].flatMap(([, names]) => names.split(' '));
  expect(built.sort()).toEqual(Object.keys(platforms).sort());
  for (const words of ['id-token: write', 'npm run package -- javascript --complete', 'node scripts/package/publish.mjs']) expect(workflow).toContain(words);
});
