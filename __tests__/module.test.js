'use strict';

const { execFileSync } = require('node:child_process');
const path = require('node:path');

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

test('a missing addon is an error that says what to do', () => {
  const result = run(`
    const path = require('node:path');
    Object.defineProperty(process, 'arch', { value: 'none' });
    try { require(path.join(process.cwd(), 'lib/index.js')); } catch (error) { console.log(JSON.stringify(error.message)); }`);
  expect(result).toMatch(/webnn-node\.\w+-none\.node.*npm run build/);
});
