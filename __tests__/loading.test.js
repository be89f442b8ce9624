'use strict';

// How lib/ finds the native addon, and what it says where there is none.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { interpreter, isCut, ofPath, ofProgram, ofReport, platform } = require('../lib/addon/platform.js');
const { afterFailure } = require('../lib/addon/advice.js');
const { packageOf, platforms } = require('../lib/addon/packages.js');
const version = require('../lib/version.js');

const root = path.join(__dirname, '..');
const addon = path.join(root, 'native', `webnn-node.${process.platform}-${process.arch}.node`);
const { system, architecture, libc } = platform();
const own = libc ? `${system}-${architecture}-${libc}` : `${system}-${architecture}`;

/** An ELF file with the path of a loader. */
function elf({ wide, little, loader }) {
  const bytes = Buffer.alloc(512);
  const put = (at, value, size) => (little ? bytes.writeUIntLE(value, at, size) : bytes.writeUIntBE(value, at, size));
  const long = (at, value) => (wide ? put(little ? at : at + 4, value, 4) : put(at, value, 4));
  bytes.write('\x7fELF', 'latin1');
  bytes[4] = wide ? 2 : 1;
  bytes[5] = little ? 1 : 2;
  const [table, size] = wide ? [64, 56] : [52, 32];
  long(wide ? 32 : 28, table);
  put(wide ? 54 : 42, size, 2);
  put(wide ? 56 : 44, loader ? 2 : 1, 2);
  put(table, 6, 4); // PT_PHDR
  if (loader) {
    const entry = table + size;
    put(entry, 3, 4);
    long(entry + (wide ? 8 : 4), 300);
    long(entry + (wide ? 32 : 16), loader.length + 1);
    bytes.write(loader, 300);
  }
  return bytes;
}

describe('the C library', () => {
  const shapes = [true, false].flatMap((wide) => [true, false].map((little) => ({ wide, little })));

  test.each(shapes)('is that of the loader that the program names: %j', (shape) => {
    expect(interpreter(elf({ ...shape, loader: '/lib/ld-musl-x86_64.so.1' }))).toBe('/lib/ld-musl-x86_64.so.1');
    expect(interpreter(elf({ ...shape }))).toBeUndefined();
  });

  test('is not told by what is no ELF file, or a part of one', () => {
    const whole = elf({ wide: true, little: true, loader: '/lib64/ld-linux-x86-64.so.2' });
    expect(interpreter(Buffer.from('#!/bin/sh\n'.repeat(20)))).toBeUndefined();
    for (let length = 0; length < 328; length++) expect(interpreter(whole.subarray(0, length))).toBeUndefined();
    const far = Buffer.from(whole);
    far.fill(0xff, 32, 40);
    expect(interpreter(far)).toBeUndefined();
  });

  test.each([
    ['/lib64/ld-linux-x86-64.so.2', 'gnu'],
    ['/lib/ld-linux-aarch64.so.1', 'gnu'],
    ['/nix/store/musl-named-folder-glibc-2.40/lib/ld-linux-x86-64.so.2', 'gnu'],
    ['/tmp/.mount_AppImage/lib/ld-linux-x86-64.so.2', 'gnu'],
    ['/lib/ld-musl-aarch64.so.1', 'musl'],
    ['/nix/store/xyz-musl-1.2.5/lib/ld-musl-x86_64.so.1', 'musl'],
    ['/lib/libc.musl-x86_64.so.1', 'musl'],
    ['/usr/lib/x86_64-linux-musl/libc.so', 'musl'],
    ['/system/bin/linker64', undefined],
  ])('of %s is %s', (file, expected) => expect(ofPath(file)).toBe(expected));

  test('is that which the report names where the program does not', () => {
    const report = (header, sharedObjects) => ({ getReport: () => ({ header, sharedObjects }) });
    expect(ofReport(report({ glibcVersionRuntime: '2.36' }, ['/lib/libfoo.so']))).toBe('gnu');
    expect(ofReport(report({}, ['/usr/lib/libstdc++.so.6', '/lib/ld-musl-x86_64.so.1']))).toBe('musl');
    expect(ofReport(report({}, []))).toBeUndefined();
    expect(ofReport(report({}))).toBeUndefined();
    expect(ofReport({ getReport: () => { throw new Error('denied'); } })).toBeUndefined();
    expect(ofReport(null)).toBeUndefined();
  });

  test('is asked for without resolving names of the network', () => {
    let during;
    const report = { excludeNetwork: false, getReport() { during = this.excludeNetwork; return { header: {} }; } };
    ofReport(report);
    expect([during, report.excludeNetwork]).toEqual([true, false]);
  });

  // Other systems have one C library each.
  (process.platform === 'linux' ? test : test.skip)('of this process is found both ways, and no program is run for it', () => {
    expect(ofProgram()).toBe(ofReport());
    expect(ofProgram('/nowhere')).toBeUndefined();
    const program = `require('node:child_process').spawn = require('node:child_process').spawnSync = () => { throw new Error('run'); };
      console.log(require(${JSON.stringify(path.join(root, 'lib/addon/platform.js'))}).platform().libc);`;
    expect(spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' }).stdout).toBe(`${ofProgram()}\n`);
  });
});

test('the version is that of the package, of the crate and of the addon', () => {
  expect(require('../package.json').version).toBe(version);
  expect(require('../lib/native.js').version()).toBe(version);
});

describe('what a loader says', () => {
  // glibc, musl, macOS and Windows.
  test.each([
    ["/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.35' not found (required by /a.node)", 'it needs glibc 2.35 or later, and this system has an older one; packages of webnn-node need glibc 2.28. Mend it.'],
    ['libc.musl-x86_64.so.1: cannot open shared object file: No such file or directory', 'it is for musl, and this Node.js runs with glibc. Mend it.'],
    ['Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /a.node)', 'it is for glibc, and this Node.js runs with musl. Mend it.'],
    ['/a.node: file too short', 'damaged'],
    ['/a.node: invalid ELF header', 'damaged'],
    ['Error loading shared library /a.node: Exec format error', 'damaged'],
    ["dlopen(/a.node, 0x0001): tried: '/a.node' (mach-o file, but is an incompatible architecture (have 'x86_64', need 'arm64'))", 'damaged, or is for another platform. Mend it.'],
    ['\\\\?\\C:\\a.node is not a valid Win32 application.', 'damaged'],
    ['/tmp/a.node: failed to map segment from shared object', '"noexec"'],
    ['/tmp/a.node: cannot open shared object file: No such file or directory', 'for another platform. Mend it.'],
    ['libfoo.so.1: cannot open shared object file: No such file or directory', 'it needs libfoo.so.1, which this system does not have'],
    ['Error loading shared library libfoo.so.1: No such file or directory (needed by /a.node)', 'it needs libfoo.so.1, which this system does not have'],
    ["Module did not self-register: '/tmp/a.node'.", 'it is not the addon of webnn-node. Mend it.'],
    ['/tmp/a.node: cannot open shared object file: Permission denied', 'this user may not read its file'],
    ['something new', 'the system cannot load it: something new'],
  ])('%s', (message, meaning) => expect(afterFailure({ code: 'ERR_DLOPEN_FAILED', message }, 'Mend it.')).toContain(meaning));
});

test('every platform has its require, and package.json has each as an optional dependency of this version', () => {
  const source = fs.readFileSync(path.join(root, 'lib/addon/packages.js'), 'utf8');
  for (const name of Object.keys(platforms)) expect(source).toContain(`require('${packageOf(name)}')`);
});

describe('an installed package', () => {
  let project;
  let folder;
  beforeEach(() => {
    project = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-loading-'));
    folder = path.join(project, 'node_modules', 'webnn-node');
    fs.cpSync(path.join(root, 'lib'), path.join(folder, 'lib'), { recursive: true });
    fs.copyFileSync(path.join(root, 'package.json'), path.join(folder, 'package.json'));
  });
  afterEach(() => fs.rmSync(project, { recursive: true }));

  /** Puts the package of a platform beside it; without an addon its main file is missing. */
  function addPackage(name, files = {}) {
    const destination = path.join(project, 'node_modules', packageOf(name));
    fs.mkdirSync(destination, { recursive: true });
    fs.writeFileSync(path.join(destination, 'package.json'), JSON.stringify({ name: packageOf(name), version, main: 'addon.node' }));
    for (const [file, target] of Object.entries(files)) fs.symlinkSync(target, path.join(destination, file));
    return destination;
  }

  function run({ before = '', env = {} } = {}) {
    const program = `${before}; try { console.log(typeof require('webnn-node').ml.createContext); } catch (error) { console.log(error.message); }`;
    return spawnSync(process.execPath, ['-e', program], { cwd: project, encoding: 'utf8', env: { ...process.env, ...env } }).stdout.trim();
  }
  const pretend = (fields) => Object.entries(fields).map(([name, value]) => `Object.defineProperty(process, '${name}', { value: '${value}' })`).join(';');

  test('loads the addon of its platform', () => {
    addPackage(own, { 'addon.node': addon });
    expect(run()).toBe('function');
  });

  test('prefers the build of a clone, and what WEBNN_NATIVE names to both', () => {
    fs.mkdirSync(path.join(folder, 'native'));
    fs.symlinkSync(addon, path.join(folder, 'native', path.basename(addon)));
    expect(run()).toBe('function');
    fs.unlinkSync(path.join(folder, 'native', path.basename(addon)));
    fs.writeFileSync(path.join(folder, 'native', path.basename(addon)), 'spoilt');
    expect(run()).toContain(`could not be loaded from ${path.join(fs.realpathSync(folder), 'native')}`);
    expect(run({ env: { WEBNN_NATIVE: addon } })).toBe('function');
  });

  test('says what is wrong with WEBNN_NATIVE', () => {
    expect(run({ env: { WEBNN_NATIVE: 'none.node' } })).toContain(`there is no such file (${path.join(fs.realpathSync(project), 'none.node')})`);
    expect(run({ env: { WEBNN_NATIVE: './package.json' } })).toContain('end with .node');
    fs.mkdirSync(path.join(project, 'folder.node'));
    expect(run({ env: { WEBNN_NATIVE: 'folder.node' } })).toContain('this is not a file');
    const constrain = path.join(root, 'packages', 'constrain', 'native', path.basename(addon).replace('node', 'constrain'));
    if (fs.existsSync(constrain)) expect(run({ env: { WEBNN_NATIVE: constrain } })).toContain('which is not an addon of webnn-node. Remove the variable WEBNN_NATIVE');
  });

  test('refuses an addon of another version, with both versions', () => {
    addPackage(own, { 'addon.node': addon });
    fs.writeFileSync(path.join(folder, 'lib', 'version.js'), "module.exports = '9.8.7';");
    const found = run();
    expect(found).toContain('JavaScript is of version 9.8.7');
    expect(found).toContain(`addon is of version ${version}`);
    expect(found).toContain(`npm install ${packageOf(own)}@9.8.7`);
  });

  test('names the platform, what was looked for and where, and how it comes there', () => {
    const found = run();
    expect(found).toContain(`for ${system} ${architecture}`);
    expect(found).toContain(packageOf(own));
    expect(found).toContain(path.join(fs.realpathSync(project), 'node_modules'));
    const { os, cpu, libc } = platforms[own];
    expect(found).toContain(`npm install --include=optional --os=${os} --cpu=${cpu}${libc ? ` --libc=${libc}` : ''} --no-save ${packageOf(own)}@${version}`);
    expect(found).not.toContain('for another platform.');
  });

  test('says in a clone that it can be built', () => {
    expect(run()).not.toContain('npm run build');
    fs.writeFileSync(path.join(folder, 'Cargo.toml'), '');
    expect(run()).toContain('run "npm run build"');
  });

  test('says that node_modules is of another platform', () => {
    addPackage('win32-arm64');
    expect(run()).toContain('There is @webnn-node/win32-arm64: node_modules was installed for another platform.');
  });

  test('says for which platforms there are packages', () => {
    const found = run({ before: pretend({ platform: 'freebsd', arch: 'riscv64' }) });
    expect(found).toContain('no package with an addon for freebsd riscv64');
    expect(found).toContain('linux-x64-musl, ');
    expect(found).toContain('npm run build');
  });

  test('tells a package that is missing from an addon that does not load', () => {
    const destination = addPackage(own);
    fs.writeFileSync(path.join(destination, 'addon.node'), 'spoilt');
    expect(run()).toContain(`could not be loaded from ${packageOf(own)}: its file is damaged, or is for another platform. Delete node_modules`);
  });

  test('tells a package without its file from one that is missing', () => {
    addPackage(own);
    const found = run();
    expect(found).toContain(`could not be loaded from ${packageOf(own)}: the package is there, and its file is missing. Delete node_modules and install again.`);
    expect(found).not.toContain('another platform');
  });

  // Other systems refuse such files themselves.
  (process.platform === 'linux' ? test : test.skip)('refuses a file whose end is missing, which the system would end the process for', () => {
    const destination = addPackage(own);
    const file = path.join(destination, `webnn-node.${own}.node`);
    fs.writeFileSync(path.join(destination, 'package.json'), JSON.stringify({ name: packageOf(own), version, main: path.basename(file) }));
    const whole = fs.readFileSync(addon);
    fs.writeFileSync(file, whole.subarray(0, whole.length / 4));
    expect([isCut(file), isCut(addon), isCut('nowhere'), isCut(__filename)]).toEqual([true, false, false, false]);
    const message = `its file is damaged, or is for another platform.`;
    expect(run()).toContain(`could not be loaded from ${packageOf(own)}: ${message} Delete node_modules and install again.`);
    expect(run({ env: { WEBNN_NATIVE: file } })).toContain(`could not be loaded from ${file}: ${message} Remove the variable WEBNN_NATIVE`);
  });

  test('says to every old version of Node.js what it needs', () => {
    const { engines, exports, bin } = require('../package.json');
    fs.cpSync(path.join(root, 'bin'), path.join(folder, 'bin'), { recursive: true });
    const needed = /\d+/.exec(engines.node)[0];
    const files = [...Object.values(exports).filter((one) => one.require).map((one) => one.require), bin['webnn-node']];
    expect(files.length).toBeGreaterThan(7);
    for (const file of files) {
      const program = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } }); require(${JSON.stringify(path.join(folder, file))});`;
      const { status, stderr } = spawnSync(process.execPath, ['-e', program], { cwd: project, encoding: 'utf8' });
      expect(status).toBe(1);
      expect(stderr).toContain(`webnn-node: this is Node.js 18.20.8, and webnn-node needs Node.js ${needed} or later: install it from https://nodejs.org`);
    }
  });
});
