'use strict';

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const root = path.join(__dirname, '..');
const NAMES = [
  ...['ML', 'MLAwaitedExecution', 'MLCommandBuffer', 'MLCommandEncoder', 'MLContext', 'MLExecution', 'MLGraph'],
  ...['MLGraphBuilder', 'MLOperand', 'MLTensor', 'ml'],
];

/** Runs a program in a process of its own and returns what it prints as JSON. */
function run(program, type = 'commonjs') {
  const output = execFileSync(process.execPath, [`--input-type=${type}`, '-e', program], { cwd: root, encoding: 'utf8' });
  return JSON.parse(output);
}

describe('A1: what the module exports', () => {
  test('through require()', () => {
    const webnn = require('..');
    expect(Object.keys(webnn)).toEqual(expect.arrayContaining(NAMES));
    expect(webnn.ml).toBeInstanceOf(webnn.ML);
  });

  test('through import, by name, and the same objects', () => {
    const result = run(
      `import { createRequire } from 'node:module';
       import * as imported from 'webnn-node';
       const required = createRequire(process.cwd() + '/')('webnn-node');
       console.log(JSON.stringify(${JSON.stringify(NAMES)}.map((name) => imported[name] === required[name] && imported[name] !== undefined)));`,
      'module',
    );
    expect(result).toEqual(NAMES.map(() => true));
  });

  test('and so of webnn-node/register', () => {
    const result = run(
      `import webnn, * as imported from 'webnn-node/register';
       console.log(JSON.stringify(${JSON.stringify(NAMES)}.map((name) => imported[name] === webnn[name] && (name === 'ml' ? navigator : globalThis)[name] === webnn[name])));`,
      'module',
    );
    expect(result).toEqual(NAMES.map(() => true));
  });

  test('require() adds nothing to the global object', () => {
    const added = run(`
      const before = new Set(Reflect.ownKeys(globalThis));
      require('webnn-node');
      console.log(JSON.stringify(Reflect.ownKeys(globalThis).filter((key) => !before.has(key)).map(String)));`);
    expect(added).toEqual([]);
  });
});

describe('A2: webnn-node/register', () => {
  const INTERFACES = NAMES.filter((name) => name !== 'ml');

  test('defines what browser code looks for, and nothing else', () => {
    const added = run(`
      const before = new Set(Reflect.ownKeys(globalThis));
      require('webnn-node/register');
      console.log(JSON.stringify(Reflect.ownKeys(globalThis).filter((key) => !before.has(key)).map(String)));`);
    expect(added).toEqual(expect.arrayContaining([...INTERFACES, 'GPUDevice']));
    // Node 21 and later have a navigator of their own. Extensions of the module may come on top.
    const allowed = new Set([...Object.keys(require('..')), 'navigator', 'GPUDevice']);
    expect(added.filter((name) => !allowed.has(name))).toEqual([]);
  });

  test('navigator.ml is the module\'s ml, the same each time', () => {
    const result = run(`
      const { ml } = require('webnn-node/register');
      console.log(JSON.stringify([navigator.ml === ml, navigator.ml === navigator.ml, typeof navigator.hardwareConcurrency,
        typeof navigator.userAgent]));`);
    expect(result).toEqual([true, true, 'number', 'string']);
  });

  test('with the property attributes of WebIDL', () => {
    const result = run(`
      require('webnn-node/register');
      const flags = ({ value, get, set, ...rest }) => ({ ...rest, get: typeof get, set: typeof set });
      console.log(JSON.stringify({
        interface: flags(Object.getOwnPropertyDescriptor(globalThis, 'MLContext')),
        ml: flags(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(navigator), 'ml')),
        name: Object.getOwnPropertyDescriptor(Object.getPrototypeOf(navigator), 'ml').get.name,
      }));`);
    expect(result).toEqual({
      interface: { writable: true, enumerable: false, configurable: true, get: 'undefined', set: 'undefined' },
      ml: { enumerable: true, configurable: true, get: 'function', set: 'undefined' },
      name: 'get ml',
    });
  });

  test('keeps a navigator that is there', () => {
    const result = run(`
      const mine = { userAgent: 'mine' };
      Object.defineProperty(globalThis, 'navigator', { value: mine, configurable: true });
      const { ml } = require('webnn-node/register');
      console.log(JSON.stringify([navigator === mine, navigator.userAgent, navigator.ml === ml]));`);
    expect(result).toEqual([true, 'mine', true]);
  });

  test('GPUDevice can be asked for, and not be made', () => {
    const result = run(`
      require('webnn-node/register');
      let error;
      try { new GPUDevice(); } catch (caught) { error = String(caught); }
      console.log(JSON.stringify([({}) instanceof GPUDevice, error]));`);
    expect(result).toEqual([false, 'TypeError: Illegal constructor']);
  });

  test('a GPUDevice that is there stays', () => {
    const result = run(`
      class GPUDevice {}
      globalThis.GPUDevice = GPUDevice;
      require('webnn-node/register');
      console.log(JSON.stringify(globalThis.GPUDevice === GPUDevice));`);
    expect(result).toBe(true);
  });
});

describe('an addon that cannot be loaded', () => {
  /** The message of a process with these flags. */
  const message = (flags, file = 'lib/index.js') => {
    const program = `try { require(${JSON.stringify(path.join(root, file))}); } catch (error) { console.log(error.message); }`;
    return execFileSync(process.execPath, [...flags, '-e', program], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  };
  const permission = process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission';

  test.each([
    ['addons are switched off', ['--no-addons'], '--no-addons'],
    ['addons are not permitted', [permission, '--allow-fs-read=*'], '--allow-addons'],
  ])('because %s', (_, flags, advice) => {
    expect(message(flags)).toContain(advice);
    expect(message(flags)).not.toContain('npm run build');
  });

  test('and one that is permitted computes', () => {
    const program = `
      const { ml } = require('webnn-node');
      ml.createContext({ deviceType: 'cpu' }).then(async (context) => {
        const tensor = await context.createTensor({ dataType: 'float32', shape: [1], readable: true, writable: true });
        context.writeTensor(tensor, Float32Array.of(3));
        console.log(new Float32Array(await context.readTensor(tensor))[0]);
      });`;
    const flags = [permission, '--allow-fs-read=*', '--allow-addons'];
    const stdio = ['ignore', 'pipe', 'ignore'];
    expect(execFileSync(process.execPath, [...flags, '-e', program], { cwd: root, encoding: 'utf8', stdio })).toBe('3\n');
  });

  test('because a bundler has moved lib/ away', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-bundle-'));
    try {
      fs.cpSync(path.join(root, 'lib'), path.join(folder, 'lib'), { recursive: true });
      const found = message([], path.relative(root, path.join(folder, 'lib', 'index.js')));
      expect(found).toContain('bundler');
      expect(found).not.toContain('npm run build');
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });
});

describe('import() of a package whose addon cannot be loaded rejects, and a program that catches that goes on', () => {
  const modules = fs.readdirSync(path.join(root, 'lib'), { recursive: true }).filter((file) => file.endsWith('.mjs')).map((file) => path.join('lib', file));
  const program = (file) => `
    const reasons = [];
    await import(${JSON.stringify(pathToFileURL(file).href)}).catch(({ message }) => reasons.push(message));
    setTimeout(() => console.log(JSON.stringify(reasons)), 50);`;
  const outcome = (file) => {
    const flags = ['--no-addons', '--input-type=module'];
    const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, '-e', program(file)], { cwd: root, encoding: 'utf8' });
    return { status, stdout, stderr };
  };
  const caught = { status: 0, stdout: expect.stringMatching(/^\[".*--no-addons.*"\]\n$/), stderr: '' };

  test.each(modules)('%s', (file) => expect(outcome(path.join(root, file))).toEqual(caught));

  test('the package in the place of onnxruntime-node', () => {
    const project = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-import-'));
    try {
      const installed = path.join(project, 'node_modules');
      fs.cpSync(path.join(root, 'packages', 'onnxruntime-node'), path.join(installed, 'onnxruntime-node'), { recursive: true });
      fs.symlinkSync(root, path.join(installed, 'webnn-node'), 'junction');
      expect(outcome(path.join(installed, 'onnxruntime-node', 'index.mjs'))).toEqual(caught);
    } finally {
      fs.rmSync(project, { recursive: true });
    }
  });
});

describe('how TypeScript and Node find what is exported', () => {
  const { exports: exported, typesVersions } = require('../package.json');
  const paths = Object.keys(exported).filter((name) => name.startsWith('./') && name !== './package.json');

  // TypeScript's older `moduleResolution: node` reads no `exports`.
  test.each(paths)('%s has typings in both ways', (name) => {
    const { types } = exported[name];
    expect(fs.existsSync(path.join(root, types))).toBe(true);
    expect(typesVersions['*'][name.slice(2)]).toEqual([types]);
  });

  test('a default import of webnn-node/onnx has what can be imported by name', () => {
    const result = run(
      `import onnx, * as named from 'webnn-node/onnx';
       console.log(JSON.stringify(Object.keys(onnx).map((name) => [name, onnx[name] === named[name]])));`,
      'module',
    );
    expect(result).toEqual(['OnnxBindings', 'OnnxModel', 'OnnxTensor', 'inspectOnnx', 'loadOnnx'].map((name) => [name, true]));
  });
});

test('all copies of the module in a process have one listener of its exit', () => {
  const result = run(`
    const path = require('node:path');
    for (let i = 0; i < 20; i++) {
      const { createContext } = require('webnn-node/lib/context.js'.replace('webnn-node', process.cwd()));
      createContext(0, true, 'gpu', '', 0);
      for (const key of Object.keys(require.cache)) if (!key.endsWith('.node')) delete require.cache[key];
    }
    console.log(JSON.stringify(process.listenerCount('exit')));
    process.removeAllListeners('exit');`);
  expect(result).toBe(1);
});

test('WEBNN_LOG names members of options that the specification does not know, once for each operator', () => {
  const program = `
    const { ml, MLGraphBuilder } = require('webnn-node');
    ml.createContext({ deviceType: 'cpu' }).then((context) => {
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', { dataType: 'float32', shape: [1, 1, 4, 4] });
      const f = builder.constant({ dataType: 'float32', shape: [1, 1, 1, 1] }, new Float32Array(1));
      for (let i = 0; i < 2; i++) builder.conv2d(x, f, { autoPad: 'same-upper', strides: [1, 1], label: 'one' });
      builder.averagePool2d(x, { autoPad: 'same-upper' });
    });`;
  const logged = (log) => spawnSync(process.execPath, ['-e', program], { cwd: root, encoding: 'utf8', env: { ...process.env, WEBNN_LOG: log } }).stderr;
  const lines = logged('1').split('\n').filter((line) => line.includes('options:'));
  expect(lines).toHaveLength(2);
  expect(lines[0]).toMatch(/^webnn: conv2d: options: 'autoPad' .*'strides'/);
  expect(lines[1]).toMatch(/^webnn: averagePool2d: options: 'autoPad' /);
  expect(logged('')).toBe('');
});

test('a missing addon is an error that says what to do', () => {
  const result = run(`
    const path = require('node:path');
    Object.defineProperty(process, 'arch', { value: 'none' });
    try { require(path.join(process.cwd(), 'lib/index.js')); } catch (error) { console.log(JSON.stringify(error.message)); }`);
  expect(result).toMatch(/no package with an addon for \w+ none.*npm run build/s);
});
