'use strict';

// What `npm pack` puts into the package: all that runs, and all that builds the addon where none is for the platform.

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const root = path.join(__dirname, '..');
// Under `npm test` npm says which file it is; this also avoids npm.cmd, which needs a shell on Windows.
const script = process.env.npm_execpath;
const npm = script?.endsWith('.js') ? [process.execPath, script] : ['npm'];

const addon = `native/webnn-node.${process.platform}-${process.arch}.node`;

/** The package as it is in node_modules, but for the addon, which is linked. */
let folder;
let files;
beforeAll(() => {
  const project = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-package-'));
  // A copy of the repository with an empty addon: npm compresses all files even where it only lists them.
  const copy = path.join(project, 'repository');
  const left = ['.git', 'native', 'node_modules', 'target'].map((name) => path.join(root, name));
  fs.cpSync(root, copy, { recursive: true, filter: (file) => !left.includes(file) });
  fs.mkdirSync(path.join(copy, 'native'));
  fs.writeFileSync(path.join(copy, addon), '');
  const args = [...npm.slice(1), 'pack', '--dry-run', '--json', '--ignore-scripts'];
  const packed = Object.values(JSON.parse(execFileSync(npm[0], args, { cwd: copy, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })));
  files = packed[0].files.map((file) => file.path);
  folder = path.join(project, 'node_modules', 'webnn-node');
  for (const file of files) {
    if (file === addon) continue;
    fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    fs.renameSync(path.join(copy, file), path.join(folder, file));
  }
  fs.symlinkSync(path.join(root, 'native'), path.join(folder, 'native'), 'junction');
});
afterAll(() => fs.rmSync(path.join(folder, '..', '..'), { recursive: true }));

test('has the addon of this platform, and no other files of the repository than those for users', () => {
  expect(files).toContain(addon);
  const folders = new Set(files.filter((file) => file.includes('/')).map((file) => file.split('/')[0]));
  expect([...folders].sort()).toEqual(['bin', 'crates', 'docs', 'lib', 'native', 'scripts', 'src']);
});

test('has all sources of the addon', () => {
  const inFolder = (folder) => fs.readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true });
  const sources = ['src', 'crates'].flatMap(inFolder);
  const expected = sources.filter((file) => file.isFile()).map((file) => path.relative(root, path.join(file.parentPath ?? file.path, file.name)));
  expect(files).toEqual(expect.arrayContaining(expected.map((file) => file.replaceAll(path.sep, '/'))));
});

test('is built by cargo: nothing that its manifests name is missing', () => {
  // Cargo reads the manifests, the workspace's members among them, before it finds that there is no such program; to compile everything takes minutes.
  const args = ['build', '--locked', '--offline', '--bin', 'none', '--target-dir', path.join(folder, 'target')];
  expect(spawnSync('cargo', args, { cwd: folder, encoding: 'utf8' }).stderr).toMatch(/^error: no bin target named `none`/);
});

test('is built by its scripts, which have nothing to install', () => {
  const program = "import('./scripts/setup.mjs').then(({ setUp }) => setUp({ addon: false })).then(() => console.log('ready'))";
  expect(spawnSync(process.execPath, ['-e', program], { cwd: folder, encoding: 'utf8' })).toMatchObject({ status: 0, stdout: 'ready\n', stderr: '' });
});

test('runs, from require(), import and the command line', () => {
  const program = `
    import webnn from 'webnn-node';
    import { loadOnnx } from 'webnn-node/onnx';
    import 'webnn-node/register';
    console.log(typeof loadOnnx, navigator.ml === webnn.ml, (await webnn.ml.createContext({ deviceType: 'cpu' })).label === '');`;
  const project = path.join(folder, '..', '..');
  expect(execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: project, encoding: 'utf8' })).toBe('function true true\n');
  expect(execFileSync(process.execPath, [path.join(folder, 'bin', 'webnn-node.js'), '--help'], { encoding: 'utf8' })).toContain('inspect');
});
