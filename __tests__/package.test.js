'use strict';

// What `npm run package` packs as `webnn-node`: what runs, and what is read by those who use it. The addon is in a package of its own.

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { packageOf, platforms } = require('../lib/addon/packages.js');
const { platform } = require('../lib/addon/platform.js');

const root = path.join(__dirname, '..');
const { version } = require('../package.json');
const addon = path.join(root, 'native', `webnn-node.${process.platform}-${process.arch}.node`);
const { system, architecture, libc } = platform();
const own = [system, architecture, ...(libc ? [libc] : [])].join('-');

/** A project with the package in node_modules. */
let project;
let folder;
let files;
let description;
beforeAll(() => {
  project = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-package-'));
  const program = `
    import { packJavaScript } from ${JSON.stringify(pathToFileURL(path.join(root, 'scripts/package/pack.mjs')).href)};
    import { readTarball } from ${JSON.stringify(pathToFileURL(path.join(root, 'scripts/package/tarball.mjs')).href)};
    import fs from 'node:fs';
    const { filename } = await packJavaScript(process.cwd());
    for (const [name, bytes] of readTarball(fs.readFileSync(filename))) {
      const file = './node_modules/webnn-node/' + name;
      fs.mkdirSync(file.replace(/[^/]*$/, ''), { recursive: true });
      fs.writeFileSync(file, bytes);
    }`;
  execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: project, encoding: 'utf8', env: { ...process.env, GITHUB_REPOSITORY: '' } });
  folder = path.join(project, 'node_modules', 'webnn-node');
  const found = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  files = found.map((file) => path.relative(folder, path.join(file.parentPath ?? file.path, file.name)).replaceAll(path.sep, '/'));
  description = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const beside = path.join(project, 'node_modules', packageOf(own));
  fs.mkdirSync(beside, { recursive: true });
  fs.writeFileSync(path.join(beside, 'package.json'), JSON.stringify({ name: packageOf(own), version, main: 'addon.node' }));
  fs.symlinkSync(addon, path.join(beside, 'addon.node'));
}, 60_000);
afterAll(() => fs.rmSync(project, { recursive: true }));

test('has no other files of the repository than those for users', () => {
  const folders = new Set(files.filter((file) => file.includes('/')).map((file) => file.split('/')[0]));
  expect([...folders].sort()).toEqual(['bin', 'docs', 'lib']);
  const others = ['CHANGELOG.md', 'LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'index.d.ts', 'package.json', 'sbom.cdx.json'];
  expect(files.filter((file) => !file.includes('/')).sort()).toEqual(others);
  expect(files).not.toContain('docs/adding-an-operator.md');
});

test('is what npm pack would list in a clone, and that is not published from there', () => {
  expect(require('../package.json').files).toEqual(description.files.filter((file) => file !== 'sbom.cdx.json'));
  expect(spawnSync(process.execPath, ['scripts/package/refuse.mjs'], { cwd: root, encoding: 'utf8' })).toMatchObject({ status: 1, stderr: expect.stringContaining('npm run package') });
});

test('depends on a package for each platform, of this version, and runs no scripts', () => {
  const expected = Object.fromEntries(Object.keys(platforms).map((name) => [packageOf(name), version]));
  expect(description.optionalDependencies).toEqual(expected);
  expect(description.dependencies).toBeUndefined();
  expect(description.devDependencies).toBeUndefined();
  expect(description.scripts).toBeUndefined();
  expect(description.workspaces).toBeUndefined();
});

test('links to nothing that is not in it', () => {
  for (const page of files.filter((file) => file.endsWith('.md'))) {
    const text = fs.readFileSync(path.join(folder, page), 'utf8').replace(/```.*?```/gs, '');
    for (const [, target] of text.matchAll(/\]\(([^)\s#]+)(?:#[^)\s]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      expect([page, target, fs.existsSync(path.join(folder, path.dirname(page), target))]).toEqual([page, target, true]);
    }
  }
});

test('runs, from require(), import and the command line', () => {
  const program = `
    import webnn from 'webnn-node';
    import { loadOnnx } from 'webnn-node/onnx';
    import 'webnn-node/register';
    console.log(typeof loadOnnx, navigator.ml === webnn.ml, (await webnn.ml.createContext({ deviceType: 'cpu' })).label === '');`;
  expect(execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: project, encoding: 'utf8' })).toBe('function true true\n');
  expect(execFileSync(process.execPath, [path.join(folder, 'bin', 'webnn-node.js'), '--help'], { encoding: 'utf8' })).toContain('inspect');
  expect(execFileSync(process.execPath, [path.join(folder, 'bin', 'webnn-node.js'), '--version'], { encoding: 'utf8' })).toBe(`${version}\n`);
});

/** Evaluates an expression with what check.mjs exports. */
function check(expression) {
  const program = `
    import * as checks from ${JSON.stringify(pathToFileURL(path.join(root, 'scripts/package/check.mjs')).href)};
    try { console.log(${expression}); } catch ({ message }) { console.log(message); }`;
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }).trim();
}

test('holds no addon with a path of the machine that built it', () => {
  const file = path.join(project, 'addon.bin');
  const checkPaths = () => check(`checks.checkPaths(${JSON.stringify(file)}, ['/home/builder', '/checkout of mine'])`);
  fs.writeFileSync(file, '\0cargo/registry/src/a.rs\0/home/builderless/b.rs\0');
  expect(checkPaths()).toBe('undefined');
  fs.writeFileSync(file, '\0cargo/registry/src/a.rs\0/checkout of mine/src/b.rs\0c');
  expect(checkPaths()).toContain('holds a path of this machine: /checkout of mine/src/b.rs (');
});

test('holds no addon that wants more of a system than Node.js does', () => {
  expect(check("checks.newerThan('GLIBC_2.28 GLIBC_2.2.5 GLIBC_2.35 GLIBC_2.9', '2.28')")).toBe("[ '2.35' ]");
  const imports = ['KERNEL32.dll', 'api-ms-win-core-synch-l1-2-0.dll', 'libgcc_s_seh-1.dll', 'd3d12.dll'].map((name) => `\tDLL Name: ${name}`).join('\n');
  expect(check(`checks.foreignImports(${JSON.stringify(imports)})`)).toBe("[ 'libgcc_s_seh-1.dll', 'd3d12.dll' ]");
});

test('says what takes the room in an addon', () => {
  const program = `
    import { crateOf, roomOfCrates, roomOfSections } from ${JSON.stringify(pathToFileURL(path.join(root, 'scripts/package/room.mjs')).href)};
    const names = JSON.parse(process.argv[1]);
    const symbols = '0010 0020 t webnn_node::a\\n0010 0020 t webnn_node::same\\n0030 0001 T <webnn_node::B as core::C>::d\\n0040 0100 t <u8 as core::E>::f\\n0050 0100 d core::DATA\\n';
    const sections = '  [ 1] .text PROGBITS 0000000000001000 001000 000100 00  AX  0   0 64\\n  [ 2] .rodata PROGBITS 0 2000 10 00 A 0 0 64\\n  [10] .bss NOBITS 0 2000 ff 00 A 0 0 64\\n';
    console.log(JSON.stringify([names.map(crateOf), roomOfCrates(symbols), roomOfSections(sections)]));`;
  const names = {
    'webnn_kernels::gemm::tile': 'webnn_kernels',
    '<webnn_node::A as core::fmt::Debug>::fmt': 'webnn_node',
    '<alloc::vec::Vec<T> as Clone>::clone': 'alloc',
    '<&mut naga::Module as core::fmt::Debug>::fmt': 'naga',
    '<dyn wgpu_hal::Device>::f': 'wgpu_hal',
    '<[u8] as core::A>::f': 'core',
    '<f32 as num_traits::Float>::sqrt': 'core',
    'naga[1f2e]::front::parse': 'naga',
    napi_register_module_v1: 'functions of C',
  };
  const found = JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(Object.keys(names))], { encoding: 'utf8' }));
  expect(found).toEqual([
    Object.values(names),
    { core: { bytes: 0x100, functions: 1 }, webnn_node: { bytes: 0x21, functions: 2 } },
    { code: 0x100, constants: 0x10 },
  ]);
});
